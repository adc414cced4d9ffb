// The live stream: opened with fetch, since it has to send the proof; opened again after a break, with growing pauses.

import { signal } from '@preact/signals';
import { address, proof, send } from '../api/client';

export type Listener = (kind: 'snapshot' | 'delta' | 'refused', data: unknown) => void;

/** How fresh the page is. */
export type Freshness =
  | { state: 'connecting' }
  | { state: 'live' }
  | { state: 'offline'; since: number }
  | { state: 'signed-out' };

export const freshness = signal<Freshness>({ state: 'connecting' });
/** When the page last heard of the server, by the clock of this machine. */
export const heard = signal(Date.now());
/** What the clock of the server is ahead of that of this machine, in milliseconds. */
export const offset = signal(0);
/** The page that belongs to the server; another one than that of this page offers a reload. */
export const build = signal<string | null>(null);

/** Without a byte for so long the stream is opened anew. */
const STALE = 25_000;
const LONGEST = 10_000;

const listeners = new Map<string, Set<Listener>>();
/** Number of the newest snapshot or delta of each topic: older ones are dropped. */
const numbers = new Map<string, number>();
let stream: string | null = null;
let last: string | null = null;
let tries = 0;
let retry = 0;
let controller: AbortController | null = null;
let sending = false;

function topics(): string[] {
  return [...listeners.keys()].sort();
}

/** Listens to a topic until the answer is called. */
export function listen(topic: string, listener: Listener): () => void {
  const known = listeners.get(topic);
  if (known) {
    known.add(listener);
    // What it shows begins with the whole.
    restart();
  } else {
    listeners.set(topic, new Set([listener]));
    changeTopics();
  }
  return () => {
    const all = listeners.get(topic);
    all?.delete(listener);
    if (all?.size === 0) {
      listeners.delete(topic);
      numbers.delete(topic);
      changeTopics();
    }
  };
}

/** Tells the server which topics are wanted, once what runs has settled. */
function changeTopics(): void {
  if (sending) return;
  sending = true;
  queueMicrotask(() => {
    sending = false;
    if (!stream) {
      if (controller) restart();
      return;
    }
    const more = { 'Content-Type': 'application/json' };
    send(`/live/${stream}`, { method: 'POST', more, body: JSON.stringify({ topics: topics() }) }).catch(() => restart());
  });
}

function restart(): void {
  last = null;
  controller?.abort();
}

function dispatch(kind: string, id: string, data: unknown): void {
  heard.value = Date.now();
  if (id) last = id;
  const body = data as { topic?: string; seq?: number; data?: unknown; problem?: unknown; time?: string };
  switch (kind) {
    case 'hello': {
      const hello = data as { stream: string; time: string; build: string };
      stream = hello.stream;
      offset.value = Date.parse(hello.time) - Date.now();
      build.value = hello.build;
      tries = 0;
      freshness.value = { state: 'live' };
      return;
    }
    case 'ping':
      if (body.time) offset.value = Date.parse(body.time) - Date.now();
      return;
    case 'resync':
      for (const topic of (data as { topics: string[] }).topics) numbers.delete(topic);
      return;
    case 'bye': {
      const bye = data as { reason: string; retry_ms?: number };
      if (bye.reason === 'signed-out') freshness.value = { state: 'signed-out' };
      retry = bye.retry_ms ?? 0;
      return;
    }
    case 'snapshot':
    case 'delta':
    case 'refused': {
      const topic = body.topic ?? '';
      const seq = body.seq ?? 0;
      // A delta that the snapshot holds already.
      if (kind === 'delta' && seq <= (numbers.get(topic) ?? -1)) return;
      if (kind !== 'refused') numbers.set(topic, seq);
      const value = kind === 'refused' ? body.problem : body.data;
      for (const listener of listeners.get(topic) ?? []) listener(kind, value);
    }
  }
}

/** Reads events until the stream ends. */
async function read(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let watchdog = setTimeout(() => controller?.abort(), STALE);
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller?.abort(), STALE);
      text += decoder.decode(value, { stream: true });
      let end: number;
      while ((end = text.indexOf('\n\n')) >= 0) {
        event(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } finally {
    clearTimeout(watchdog);
  }
}

function event(text: string): void {
  let [id, kind, data] = ['', '', ''];
  for (const line of text.split('\n')) {
    if (line.startsWith('id: ')) id = line.slice(4);
    else if (line.startsWith('event: ')) kind = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (kind) dispatch(kind, id, data ? JSON.parse(data) : null);
}

async function once(): Promise<void> {
  controller = new AbortController();
  const headers: Record<string, string> = { Accept: 'text/event-stream' };
  const own = proof.get();
  if (own) headers['Orlop-Proof'] = own;
  if (last) headers['Last-Event-ID'] = last;
  const url = address('/live');
  url.searchParams.set('topics', topics().join(','));
  const response = await fetch(url, { headers, credentials: 'same-origin', signal: controller.signal });
  if (response.status === 401) {
    freshness.value = { state: 'signed-out' };
    return;
  }
  const after = Number(response.headers.get('Retry-After') ?? 0) * 1000;
  if (!response.ok || !response.body) {
    retry = after;
    throw new Error(`the server answered ${response.status}`);
  }
  await read(response.body);
}

function isOver(): boolean {
  return freshness.value.state === 'signed-out';
}

/** Keeps a stream open until the session is over. */
export async function run(): Promise<void> {
  freshness.value = { state: 'connecting' };
  for (;;) {
    const restarted = await once().then(
      () => false,
      () => controller?.signal.aborted ?? false,
    );
    stream = null;
    if (isOver()) return;
    if (!restarted || Date.now() - heard.value > STALE) {
      if (freshness.value.state !== 'offline') freshness.value = { state: 'offline', since: Date.now() };
    }
    const most = Math.min(LONGEST, 250 * 2 ** tries);
    const least = tries >= 3 ? 1000 : 0;
    const pause = restarted && tries === 0 ? 0 : Math.max(retry, least, Math.random() * most);
    tries += 1;
    retry = 0;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
