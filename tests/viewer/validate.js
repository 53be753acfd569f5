// Prints the Khronos validator's report of one GLB as JSON: node validate.js FILE.
import { readFileSync } from "node:fs";
import validator from "gltf-validator";

const report = await validator.validateBytes(new Uint8Array(readFileSync(process.argv[2])), { maxIssues: 1000 });
console.log(JSON.stringify(report.issues));
