// Shows a GLB in a viewer's page in headless Chromium: node shoot.mjs FILE FOLDER CHROMIUM PAGE NODE_MODULES JOB.
// JOB is JSON {light: {ambient, front}, views: {name: {weights, distance, height, target}}}; writes FOLDER/name.png and prints complaints.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize, resolve } from "node:path";
import { createRequire } from "node:module";
const [avatar, folder, executablePath, page_, modules, job] = process.argv.slice(2);
const { chromium } = createRequire(resolve(modules, "x.js"))("playwright-core");
const types = { ".html": "text/html", ".js": "text/javascript", ".glb": "model/gltf-binary", ".wasm": "application/wasm" };
const server = createServer((request, response) => {
  const path = normalize(new URL(request.url, "http://localhost").pathname);
  let file = path === "/" ? resolve(page_) : path === "/avatar.glb" ? avatar : join(modules, path);
  if (!extname(file) && existsSync(file + ".js")) file += ".js";
  if (!existsSync(file) || statSync(file).isDirectory()) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const browser = await chromium.launch({ executablePath, timeout: 300000, args: ["--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist", "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"] });
const complaints = [];
try {
  const page = await browser.newPage({ viewport: { width: 512, height: 512 } });
  page.setDefaultTimeout(300000);
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) complaints.push(m.text()); });
  page.on("pageerror", (e) => complaints.push(String(e)));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.ready);
  const { light, views } = JSON.parse(job);
  await page.evaluate((value) => window.load(value), light);
  for (const [name, view] of Object.entries(views)) {
    await page.evaluate((value) => window.show(value), view);
    await page.screenshot({ path: join(folder, `${name}.png`) });
  }
} finally { console.log(JSON.stringify({ complaints })); await browser.close(); server.close(); }
