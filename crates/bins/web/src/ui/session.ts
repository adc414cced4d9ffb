// Who is signed in.

import { signal } from '@preact/signals';
import { change, get, proof, whenSignedOut } from '../api/client';
import type { Console, Session } from '../api/types';
import { run } from '../live/stream';

export const server = signal<Console | null>(null);
export const session = signal<Session | null>(null);
/** Whether it is known who is signed in. */
export const known = signal(false);
export const trouble = signal<unknown>(null);

/** Takes the key of a link out of the address before anything is asked for. */
function takeKey(): string | null {
  const key = /^#k=([0-9a-z]+)$/.exec(location.hash)?.[1] ?? null;
  if (key) history.replaceState(null, '', location.pathname + location.search);
  return key;
}

interface Begun extends Session {
  proof: string;
}

/** Signs in with the key of a link or a token. */
export async function signIn(by: { key: string } | { token: string }): Promise<void> {
  const begun = await change<Begun>('POST', '/session', by, crypto.randomUUID());
  if (!begun) return;
  proof.set(begun.proof);
  await load();
}

/** Signs out. */
export async function signOut(): Promise<void> {
  try {
    await change('DELETE', '/session', {}, '');
  } finally {
    proof.clear();
    // Such as a text that was not submitted.
    sessionStorage.clear();
    session.value = null;
  }
}

async function load(): Promise<void> {
  const console = await get<Console>('/console');
  server.value = console;
  const before = session.value;
  session.value = console.session;
  known.value = true;
  if (console.session && !before) void run();
}

/** Finds out who is signed in, by the link of the address if it has one. */
export async function begin(): Promise<void> {
  whenSignedOut(() => {
    session.value = null;
  });
  const key = takeKey();
  try {
    if (key) await signIn({ key });
    else await load();
  } catch (problem) {
    trouble.value = problem;
    await load().catch((caught: unknown) => {
      trouble.value = caught;
      known.value = true;
    });
  }
}
