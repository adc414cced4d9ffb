// The log of a job as it grows: the newest lines, with what would act on a terminal taken out or shown.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Problem, send } from '../api/client';
import { count, visible } from '../text/format';

interface Line {
  number: number;
  stream: string;
  text: string;
}

/** Lines that are kept, and that are drawn. */
const KEPT = 20_000;

/** A line as it is shown: colours and other sequences for terminals are taken out, and of overwritten parts the last one stays. */
export function plain(text: string): string {
  const without = text
    .replace(/\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/g, '')
    .replace(/\u001b[P^_X][^\u001b]*(?:\u001b\\)?/g, '')
    .replace(/\u001b\[[0-?]*[ -/]*[@-~]?/g, '')
    .replace(/\u001b[ -/]*[0-~]?/g, '');
  const parts = without.replace(/\r+$/, '').split('\r');
  return visible(parts[parts.length - 1] ?? '', 16_384);
}

interface Chunk {
  stream?: string;
  text?: string;
  base64?: string;
  /** Of a gap: what was lost. */
  bytes?: number;
  chunks?: number;
}

/** Reads the log of a job, and follows it. */
function useLog(job: string): { lines: Line[]; total: number; problem: unknown; ended: boolean } {
  const [state, set] = useState<{ lines: Line[]; total: number; problem: unknown; ended: boolean }>({ lines: [], total: 0, problem: null, ended: false });
  useEffect(() => {
    const stop = new AbortController();
    const lines: Line[] = [];
    let total = 0;
    let frame = 0;
    const rest = new Map<string, string>();
    const show = (ended: boolean) => {
      frame = 0;
      set({ lines: lines.slice(-KEPT), total, problem: null, ended });
    };
    const take = (stream: string, text: string) => {
      const parts = ((rest.get(stream) ?? '') + text).split('\n');
      rest.set(stream, parts.pop() ?? '');
      for (const part of parts) {
        total += 1;
        lines.push({ number: total, stream, text: part });
      }
      if (lines.length > 2 * KEPT) lines.splice(0, lines.length - KEPT);
      frame ||= requestAnimationFrame(() => show(false));
    };
    const finish = () => {
      for (const [stream, text] of rest) {
        if (text) {
          total += 1;
          lines.push({ number: total, stream, text });
        }
      }
      rest.clear();
      cancelAnimationFrame(frame);
      show(true);
    };
    const read = async () => {
      const response = await send(`/jobs/${encodeURIComponent(job)}/logs?follow=true`, {
        more: { Accept: 'text/event-stream' },
        signal: stop.signal,
      });
      const reader = response.body?.getReader();
      const decoder = new TextDecoder();
      let text = '';
      while (reader) {
        const { value, done } = await reader.read();
        if (done) break;
        text += decoder.decode(value, { stream: true });
        let end: number;
        while ((end = text.indexOf('\n\n')) >= 0) {
          const data = text
            .slice(0, end)
            .split('\n')
            .filter((line) => line.startsWith('data: '))
            .map((line) => line.slice(6))
            .join('');
          text = text.slice(end + 2);
          if (!data) continue;
          const chunk = JSON.parse(data) as Chunk;
          if (chunk.text !== undefined) take(chunk.stream ?? 'stdout', chunk.text);
          else if (chunk.base64 !== undefined) take(chunk.stream ?? 'stdout', decoded(chunk.base64));
          else if (chunk.chunks !== undefined) take('system', `lost ${count(chunk.bytes ?? 0)} bytes in ${count(chunk.chunks)} chunks\n`);
        }
      }
      finish();
    };
    read().catch((problem: unknown) => {
      if (!stop.signal.aborted) set({ lines: lines.slice(-KEPT), total, problem, ended: true });
    });
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [job]);
  return state;
}

/** Base 64 as text. */
function decoded(data: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)));
}

const HEIGHT = 18;

export function Log({ job, lines: shown }: { job: string; lines: number }) {
  const { lines, total, problem, ended } = useLog(job);
  const element = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [follows, setFollows] = useState(true);
  const first = Math.max(0, Math.floor(top / HEIGHT) - 20);
  const drawn = lines.slice(first, first + shown + 60);
  useEffect(() => {
    if (follows && element.current) element.current.scrollTop = element.current.scrollHeight;
  }, [lines, follows]);
  const scroll = () => {
    const box = element.current;
    if (!box) return;
    setTop(box.scrollTop);
    setFollows(box.scrollHeight - box.scrollTop - box.clientHeight < 2 * HEIGHT);
  };
  if (problem && lines.length === 0) {
    const text = problem instanceof Problem && problem.status === 404 ? 'nothing was written yet' : String(problem instanceof Error ? problem.message : problem);
    return <p class="faint">{visible(text)}</p>;
  }
  return (
    <div class="log-box">
      <div class="log" ref={element} onScroll={scroll} tabIndex={0} role="log" aria-label="Log" style={{ height: `${shown * HEIGHT}px` }}>
        <div style={{ height: `${lines.length * HEIGHT}px`, position: 'relative' }}>
          <div style={{ position: 'absolute', top: `${first * HEIGHT}px`, left: 0, right: 0 }}>
            {drawn.map((line) => (
              <div key={line.number} class={`line from-${line.stream}`} id={`L${line.number}`}>
                <span class="line-number">{line.number}</span>
                <span class="line-text">{plain(line.text)}</span>
              </div>
            ))}
          </div>
        </div>
      </div>
      <p class="faint log-foot">
        {total} lines{total > lines.length && `, the newest ${lines.length} are here`}
        {ended ? '' : ' · following'}
        {!follows && (
          <button type="button" class="quiet" onClick={() => setFollows(true)}>
            to the end ▾
          </button>
        )}
      </p>
    </div>
  );
}
