// Parts that all views share: states, texts, times, and what stands where there is nothing to show.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Problem } from '../api/client';
import { offset } from '../live/stream';
import { quoted, span, visible, whole } from '../text/format';
import { look } from '../text/state';

/** A text from outside: nothing in it acts, and it does not turn what stands beside it. */
export function Text({ text, most }: { text: string; most?: number }) {
  return <bdi>{visible(text, most)}</bdi>;
}

/** A state as symbol, word and colour. */
export function State({ state, short }: { state: string; short?: boolean }) {
  const { symbol, word, tone } = look(state);
  return (
    <span class={`state tone-${tone}`} title={word}>
      <span class="symbol" aria-hidden="true">
        {symbol}
      </span>
      <span class={short ? 'visually-hidden' : 'word'}>{word}</span>
    </span>
  );
}

/** Counts the seconds, once for everybody. */
const tickers = new Set<(now: number) => void>();
setInterval(() => {
  for (const tick of tickers) tick(Date.now());
}, 1000);

/** The time of the server, as it goes. */
export function useNow(goes = true): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    if (!goes) return;
    tickers.add(set);
    return () => void tickers.delete(set);
  }, [goes]);
  return now + offset.value;
}

/** How long ago a time was. */
export function Ago({ time }: { time?: string | number | null | undefined }) {
  const now = useNow();
  if (time === undefined || time === null) return <span class="faint">–</span>;
  const at = typeof time === 'number' ? time : Date.parse(time);
  return (
    <time dateTime={new Date(at).toISOString()} title={whole(at)} class="number">
      {span(Math.max(0, now - at))} ago
    </time>
  );
}

/** How long something took, or takes. */
export function Took({ from, to }: { from?: string | number | null | undefined; to?: string | number | null | undefined }) {
  const now = useNow(to === undefined || to === null);
  if (from === undefined || from === null) return <span class="faint">–</span>;
  const millis = (time: string | number) => (typeof time === 'number' ? time : Date.parse(time));
  const end = to === undefined || to === null ? now : millis(to);
  return <span class="number">{span(end - millis(from))}</span>;
}

/** A share as a bar, with its number beside it. */
export function Bar({ share, label, tone = 'run' }: { share: number; label: string; tone?: string }) {
  return (
    <span class="bar" role="img" aria-label={label} title={label}>
      <span class={`bar-fill fill-${tone}`} ref={(element) => element?.style.setProperty('width', `${Math.round(100 * Math.min(1, share))}%`)} />
    </span>
  );
}

/** Done of all, as a bar. */
export function Progress({ progress, phase }: { progress: string; phase: string }) {
  const [done, all] = progress.split('/').map(Number);
  const share = all ? (done ?? 0) / all : 0;
  const tone = phase === 'Failed' ? 'bad' : phase === 'Succeeded' ? 'good' : 'run';
  return (
    <span class="progress">
      <Bar share={share} label={`${progress} steps have ended`} tone={tone} />
      <span class="number">{progress}</span>
    </span>
  );
}

/** A command that shows or does the same; a click copies it. */
export function Command({ words }: { words: string[] }) {
  const [copied, set] = useState(false);
  const line = words.map(quoted).join(' ');
  const copy = () => {
    navigator.clipboard.writeText(line).then(
      () => {
        set(true);
        setTimeout(() => set(false), 1500);
      },
      () => set(false),
    );
  };
  return (
    <button type="button" class="command" onClick={copy} title="Copy this command">
      <code>{visible(line)}</code>
      <span class="faint">{copied ? 'copied' : 'copy'}</span>
    </button>
  );
}

/** What stands where there is nothing: what would be here, and how it gets there. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string[] }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <Command words={command} />}
    </div>
  );
}

/** What could not be shown, and why. */
export function Failed({ problem, retry }: { problem: unknown; retry?: () => void }) {
  const known = problem instanceof Problem ? problem : null;
  const title = known ? known.body.title : 'This could not be shown';
  return (
    <div class="failed" role="alert">
      <h1>{known?.status === 403 ? 'Not allowed' : known?.status === 404 ? 'Not here (any more)' : title}</h1>
      <p>
        <Text text={problem instanceof Error ? problem.message : String(problem)} />
      </p>
      {known?.body.instance && <p class="faint">request {known.body.instance}</p>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Says that something comes, once that takes a moment. */
export function Loading() {
  const [shown, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return shown ? (
    <div class="loading" role="status">
      loading…
    </div>
  ) : null;
}
