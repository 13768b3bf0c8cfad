// Starts crabline's Feishu server, which is a module of its package and not in its command line.
// Prints one JSON line with what a client needs; ends at SIGTERM.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, recorderPath] = process.argv.slice(2);
const servers = path.resolve(folder, "node_modules", "@openclaw", "crabline", "dist", "src", "servers");
const { startFeishuServer } = await import(pathToFileURL(path.join(servers, "feishu.js")));
const server = await startFeishuServer({ recorderPath });
process.stdout.write(`${JSON.stringify(server.manifest)}\n`);
process.on("SIGTERM", async () => {
  await server.close();
  process.exit(0);
});
