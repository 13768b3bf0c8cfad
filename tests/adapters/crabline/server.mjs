// Starts one of crabline's servers, as a module of its package: its command line does not take all
// that tests need. Arguments: the folder with node_modules, the provider, options as JSON.
// Prints one JSON line with what a client needs; ends at SIGTERM.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, provider, options] = process.argv.slice(2);
const servers = path.resolve(folder, "node_modules", "@openclaw", "crabline", "dist", "src", "servers");
const module = await import(pathToFileURL(path.join(servers, `${provider}.js`)));
const start = module[`start${provider[0].toUpperCase()}${provider.slice(1)}Server`];
const server = await start(JSON.parse(options));
process.stdout.write(`${JSON.stringify(server.manifest)}\n`);
process.on("SIGTERM", async () => {
  await server.close();
  process.exit(0);
});
