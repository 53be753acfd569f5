// Shows a GLB in three.js in headless Chromium: node screenshot.js FILE FOLDER CHROMIUM VIEWS.
// VIEWS is JSON {name: {weights, turns, yaw}} (see page.html); writes FOLDER/name.png and prints what three.js loaded.
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const [avatar, folder, executablePath, views] = process.argv.slice(2);
const types = { ".html": "text/html", ".js": "text/javascript", ".glb": "model/gltf-binary" };

const server = createServer((request, response) => {
  const path = normalize(new URL(request.url, "http://localhost").pathname);
  let file = join(here, "page.html");
  if (path === "/avatar.glb") file = avatar;
  else if (path.startsWith("/three/")) file = join(here, "node_modules", path);
  else if (path !== "/") file = "";
  if (!file || !existsSync(file)) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const PATIENCE_MS = 300_000; // of a busy machine
const browser = await chromium.launch({
  executablePath,
  timeout: PATIENCE_MS,
  args: [
    "--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist", "--no-sandbox",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
  ],
});
try {
  const page = await browser.newPage({ viewport: { width: 512, height: 512 } });
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.ready);
  const loaded = await page.evaluate(() => window.load());
  for (const [name, view] of Object.entries(JSON.parse(views))) {
    await page.evaluate((value) => window.show(value), view);
    await page.locator("canvas").screenshot({ path: join(folder, `${name}.png`) });
  }
  console.log(JSON.stringify({ ...loaded, complaints }));
} finally {
  await browser.close();
  server.close();
}
