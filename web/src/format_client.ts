// Asks the worker to format texts, one at a time and each within a deadline. What takes longer stays plain text.

import type { Block, FormatReply, FormatRequest } from "./formatted.ts";
import { scriptAddress, workerAddress } from "./trusted_types.ts";

/** Other texts wait meanwhile, and nothing else: a busy machine must not leave ordinary texts plain. */
const DEADLINE_MS = 2_000;
const CACHE_MAX = 400;

interface FormatJob {
  text: string;
  done(blocks: Block[] | undefined): void;
}

/** What texts became; `undefined` for those that stay plain. In the order of their use. */
const cache = new Map<string, Block[] | undefined>();
const jobs: FormatJob[] = [];
let worker: Worker | undefined;
let workerReady = false;
/** The job under way; its timer runs from when the worker has it. */
let running: { id: number; job: FormatJob; timer?: ReturnType<typeof setTimeout> } | undefined;
let nextId = 1;

/** The blocks of a text if they are known; `"unknown"` if nobody asked for them yet. */
export function knownFormat(text: string): Block[] | undefined | "unknown" {
  return cache.has(text) ? cache.get(text) : "unknown";
}

/** Formats a text, which must be escaped already. Returns a function that withdraws the wish. */
export function requestFormat(text: string, done: (blocks: Block[] | undefined) => void): () => void {
  const job = { text, done };
  jobs.push(job);
  runNext();
  return () => {
    const index = jobs.indexOf(job);
    if (index >= 0) jobs.splice(index, 1);
  };
}

function runNext(): void {
  const job = running ? undefined : jobs.shift();
  if (!job) return;
  const known = knownFormat(job.text);
  if (known !== "unknown") {
    job.done(known);
    return runNext();
  }
  running = { id: nextId++, job };
  if (!worker) startWorker();
  else if (workerReady) sendRunning();
}

/** The deadline is for the text alone: a worker that has yet to be loaded costs no text its format. */
function sendRunning(): void {
  if (!running || running.timer !== undefined) return;
  const { id, job } = running;
  running.timer = setTimeout(() => finish(id, undefined, "late"), DEADLINE_MS);
  worker?.postMessage({ id, text: job.text } satisfies FormatRequest);
}

function startWorker(): void {
  worker = new Worker(scriptAddress(workerAddress), { type: "module" });
  workerReady = false;
  worker.onmessage = ({ data }: MessageEvent<FormatReply | "ready">) => {
    if (data !== "ready") return finish(data.id, data.blocks, "done");
    workerReady = true;
    sendRunning();
  };
  worker.onerror = () => running && finish(running.id, undefined, "late");
}

function finish(id: number, blocks: Block[] | undefined, how: "done" | "late"): void {
  if (running?.id !== id) return;
  const { job, timer } = running;
  clearTimeout(timer);
  running = undefined;
  if (how === "late") {
    worker?.terminate();
    worker = undefined;
  }
  cache.set(job.text, blocks);
  if (cache.size > CACHE_MAX) cache.delete(cache.keys().next().value ?? "");
  job.done(blocks);
  runNext();
}
