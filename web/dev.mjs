// Serves `dist/` and passes the API on to a running host: `node dev.mjs HOST_ADDRESS [PORT]`, by default 127.0.0.1:7878
// and 5174. The headers are those of the host itself, so that the page meets the same policy here.
//
// Open the host's login link with this server's port in it, and the cookie is this server's.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(fileURLToPath(import.meta.url)), "dist");
const target = process.argv[2] ?? "127.0.0.1:7878";
const port = Number(process.argv[3] ?? 5174);
const [targetHost, targetPort] = target.split(":");

const types = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml", ".png": "image/png", ".webmanifest": "application/manifest+json",
};
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; frame-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types own";
const framePolicy = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'self'";

const isPassedOn = (path) => /^\/(rpc|api|login|health|metrics)(\/|$|\?)/.test(path);
const isPage = (path) => path === "/" || /^\/(ask|agents|rules|timeline|insights|settings)(\/|$)/.test(path);

/** Headers as the host expects them from a page of its own. */
function ownHeaders(headers) {
  const changed = { ...headers, host: target };
  if (changed.origin) changed.origin = `http://${target}`;
  return changed;
}

function serveFile(path, response) {
  const file = join(dist, normalize(isPage(path) ? "/index.html" : path));
  if (!file.startsWith(dist) || !existsSync(file) || !statSync(file).isFile()) {
    response.writeHead(404).end("not found\n");
    return;
  }
  const isFrame = path.startsWith("/term/");
  response.writeHead(200, {
    "content-type": types[extname(file)] ?? "application/octet-stream",
    "content-security-policy": isFrame ? framePolicy : pagePolicy,
    "cross-origin-resource-policy": isFrame ? "cross-origin" : "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  });
  createReadStream(file).pipe(response);
}

const server = createServer((incoming, response) => {
  const path = new URL(incoming.url, "http://dev").pathname;
  if (!isPassedOn(path)) return serveFile(path, response);
  const options = { host: targetHost, port: targetPort, method: incoming.method, path: incoming.url, headers: ownHeaders(incoming.headers) };
  const outgoing = request(options, (reply) => {
    response.writeHead(reply.statusCode, reply.headers);
    reply.pipe(response);
  });
  outgoing.on("error", () => response.writeHead(502).end("the host does not answer\n"));
  incoming.pipe(outgoing);
});

server.on("upgrade", (incoming, socket) => {
  const outgoing = connect(Number(targetPort), targetHost, () => {
    const headers = Object.entries(ownHeaders(incoming.headers)).map(([name, value]) => `${name}: ${value}\r\n`);
    outgoing.write(`GET ${incoming.url} HTTP/1.1\r\n${headers.join("")}\r\n`);
    outgoing.pipe(socket).pipe(outgoing);
  });
  const end = () => {
    outgoing.destroy();
    socket.destroy();
  };
  outgoing.on("error", end).on("close", end);
  socket.on("error", end).on("close", end);
});

server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port} with the host at ${target}`));
