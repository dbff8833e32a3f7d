// A session through the client of the TypeScript SDK: what it saw, as one line of JSON.
//
//   node sdk.mjs LIBRARY STORY, where the story has `command`, `args`, `cwd` and four `prompts`
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [library, text] = process.argv.slice(2);
const acp = await import(pathToFileURL(library).href);
const story = JSON.parse(text);
const agent = spawn(story.command, story.args, { stdio: ["pipe", "pipe", "inherit"] });
const seen = { said: [], asked: [], stops: [] };
let option = null;

class Client {
  async requestPermission(params) {
    seen.asked.push(params.toolCall.title);
    // As long as a person takes to read.
    await new Promise((resolve) => setTimeout(resolve, 400));
    return { outcome: { outcome: "selected", optionId: option } };
  }

  async sessionUpdate({ update }) {
    if (update.sessionUpdate === "agent_message_chunk") seen.said.push(update.content.text);
    if (update.sessionUpdate === "agent_message_chunk") this.heard?.();
  }
}

const client = new Client();
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const connection = new acp.ClientSideConnection(() => client, stream);
const started = await connection.initialize({ protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
seen.version = started.protocolVersion;
const open = async () => (await connection.newSession({ cwd: story.cwd, mcpServers: [] })).sessionId;
const prompt = (sessionId, text) => connection.prompt({ sessionId, prompt: [{ type: "text", text }] });
const [first, second] = [await open(), await open()];
option = "allow-once";
seen.stops.push((await prompt(first, story.prompts[0])).stopReason);
option = "deny";
seen.stops.push((await prompt(first, story.prompts[1])).stopReason);
seen.stops.push((await prompt(second, story.prompts[2])).stopReason);
const heard = new Promise((resolve) => (client.heard = resolve));
const running = prompt(second, story.prompts[3]);
await heard;
await connection.cancel({ sessionId: second });
seen.stops.push((await running).stopReason);
client.heard = undefined;
seen.said.push("load");
await connection.loadSession({ sessionId: first, cwd: story.cwd, mcpServers: [] });
console.log(JSON.stringify(seen));
agent.stdin.end();
process.exit(0);
