#!/usr/bin/env node
// The official TypeScript client uses every tool, over every transport.
//
//   MCP_ADDRESS=http://127.0.0.1:PORT MCP_TOKEN=… MCP_STATE=DIR node client.mjs [stdio|http|websocket]...
//
// Its WebSocket transport opens the socket without headers, as browsers do; here it gets one that sends the token.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { WebSocketClientTransport } from "@modelcontextprotocol/sdk/client/websocket.js";
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import WebSocket from "ws";

const { MCP_ADDRESS: address, MCP_TOKEN: token, MCP_STATE: state, MCP_BINARY: binary, MCP_TESTS: here } = process.env;
const bearer = { Authorization: `Bearer ${token}` };
const patience = { timeout: 180_000 };

globalThis.WebSocket = class extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols, { headers: bearer });
  }
};

function check(holds, ...what) {
  if (!holds) throw new Error(what.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(" ").slice(0, 4000));
}

function transport(kind) {
  if (kind === "stdio") {
    return new StdioClientTransport({ command: binary, args: ["mcp", "--state-dir", state], env: process.env });
  }
  if (kind === "http") {
    return new StreamableHTTPClientTransport(new URL(`${address}/mcp`), { requestInit: { headers: bearer } });
  }
  return new WebSocketClientTransport(new URL(`${address.replace("http", "ws")}/mcp/ws`));
}

const words = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");

function agree(wanted, found) {
  if (wanted !== null && typeof wanted === "object" && !Array.isArray(wanted)) {
    return found !== null && typeof found === "object" && Object.entries(wanted).every(([key, value]) => agree(value, found[key]));
  }
  return isDeepStrictEqual(wanted, found);
}

// With a schema for its output the client itself compares what a tool returns with that.
async function everyTool(client, run) {
  const tools = new Set((await client.listTools()).tools.map((tool) => tool.name));
  const table = JSON.parse(readFileSync(`${here}/tools.json`, "utf8"));
  const kept = { run };
  for (const row of table) {
    const text = Object.entries(kept).reduce((text, [name, value]) => text.replaceAll(`$${name}`, value), JSON.stringify(row));
    const step = JSON.parse(text);
    check(tools.has(step.tool), "there is no tool", step.tool);
    const result = await client.callTool({ name: step.tool, arguments: step.arguments }, undefined, patience);
    check(Boolean(result.isError) === Boolean(step.error), step, "isError is", String(result.isError), words(result));
    check(words(result).includes(step.text ?? ""), step, "answers", words(result));
    check(agree(step.facts ?? {}, result.structuredContent ?? {}), step, "answers", result.structuredContent ?? words(result));
    for (const [name, field] of Object.entries(step.keep ?? {})) kept[name] = result.structuredContent[field];
  }
  const missed = [...tools].filter((name) => !table.some((row) => row.tool === name));
  check(missed.length === 0, "nobody tries", missed);
}

async function progress(client) {
  const told = [];
  const code = "import time\nprint('first', flush=True)\ntime.sleep(3)\nprint('second', flush=True)";
  const onprogress = (progress) => told.push([performance.now(), progress.message ?? ""]);
  await client.callTool({ name: "execute_code", arguments: { language: "python", code } }, undefined, { ...patience, onprogress });
  const end = performance.now();
  const first = told.find(([, message]) => message.includes("first"));
  check(first && end - first[0] > 2000, "the first line was told late:", told, String(end));
}

async function cancelling(client, run) {
  const session_id = `cancel-ts-${run}`;
  const call = (code, options) => client.callTool({ name: "execute_code", arguments: { language: "python", code, session_id } }, undefined, options);
  await call("print('there')", patience);
  const control = new AbortController();
  setTimeout(() => control.abort("enough"), 2500);
  const late = "import time\nopen('begun', 'w').close()\ntime.sleep(4)\nopen('late', 'w').close()";
  const ended = await call(late, { ...patience, signal: control.signal }).then(() => "returned", () => "cancelled");
  check(ended === "cancelled", "it", ended);
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const { structuredContent } = await client.callTool({ name: "list_files", arguments: { sandbox_id: session_id } }, undefined, patience);
  const names = structuredContent.files.map((file) => file.name);
  check(names.includes("begun") && !names.includes("late"), "after cancelling there are", names);
}

async function resources(client, run) {
  const session_id = `resources-ts-${run}`;
  const code = "open('note.txt', 'w').write('inside')";
  await client.callTool({ name: "execute_code", arguments: { language: "python", code, session_id } }, undefined, patience);
  const read = await client.readResource({ uri: `sandbox://${session_id}/note.txt` });
  check(read.contents[0].text === "inside", read);
  check((await client.listResourceTemplates()).resourceTemplates.length > 0, "there are no templates");
}

async function prompts(client) {
  const prompt = await client.getPrompt({ name: "solve_with_code", arguments: { question: "what is 6 times 7?" } });
  check(prompt.messages[0].content.text.includes("what is 6 times 7?"), prompt);
  const { completion } = await client.complete({ ref: { type: "ref/prompt", name: "solve_with_code" }, argument: { name: "language", value: "py" } });
  check(isDeepStrictEqual(completion.values, ["python"]), completion);
}

async function logging(client) {
  const told = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, (message) => void told.push(message.params));
  await client.setLoggingLevel("info");
  await client.callTool({ name: "execute_code", arguments: { language: "python", code: "print(1)" } }, undefined, patience);
  for (let tries = 0; tries < 100 && told.length === 0; tries++) await new Promise((resolve) => setTimeout(resolve, 50));
  check(told.length > 0, "nothing was logged");
}

const kinds = process.argv.slice(2);
const failed = [];
for (const kind of kinds.length ? kinds : ["stdio", "http", "websocket"]) {
  const client = new Client({ name: "tests", version: "1" });
  const run = `${kind}-${Date.now() % 1e9}`;
  try {
    await client.connect(transport(kind));
    for (const test of [everyTool, progress, cancelling, resources, prompts, logging]) {
      const began = performance.now();
      await test(client, run).then(
        () => console.log(`${kind}: ${test.name} (${((performance.now() - began) / 1000).toFixed(1)} s)`),
        (error) => {
          failed.push(`${kind}: ${test.name}`);
          console.error(`${kind}: ${test.name} FAILED: ${error.message}`);
        },
      );
    }
  } catch (error) {
    failed.push(kind);
    console.error(`${kind}: FAILED: ${error.stack}`);
  } finally {
    await client.close().catch(() => {});
  }
}
process.exit(failed.length ? 1 : 0);
