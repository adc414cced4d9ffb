// Data of views: read once, then kept up to date by the live stream.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get, Problem } from '../api/client';
import type { Page } from '../api/types';
import { listen } from '../live/stream';

export interface Read<T> {
  value: T | null;
  problem: unknown;
  again: () => void;
}

/** Reads a path, and again when that changes. */
export function useGet<T>(path: string | null): Read<T> {
  const [state, set] = useState<{ path: string | null; value: T | null; problem: unknown }>({ path, value: null, problem: null });
  const [round, next] = useState(0);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    get<T>(path, stop.signal).then(
      (value) => set({ path, value, problem: null }),
      (problem: unknown) => {
        if (!stop.signal.aborted) set((old) => ({ path, value: old.path === path ? old.value : null, problem }));
      },
    );
    return () => stop.abort();
  }, [path, round]);
  const again = useCallback(() => next((value) => value + 1), []);
  return { value: state.path === path ? state.value : null, problem: state.problem, again };
}

/** A topic whose snapshot is the whole and whose deltas are merged. */
export function useTopic<T>(topic: string | null, merge: (old: T, delta: unknown) => T): { value: T | null; problem: unknown } {
  const [state, set] = useState<{ topic: string | null; value: T | null; problem: unknown }>({ topic, value: null, problem: null });
  const merging = useRef(merge);
  merging.current = merge;
  useEffect(() => {
    if (topic === null) return;
    return listen(topic, (kind, data) => {
      if (kind === 'snapshot') set({ topic, value: data as T, problem: null });
      else if (kind === 'refused') set({ topic, value: null, problem: new Problem(data as never) });
      else set((old) => (old.value === null ? old : { topic, value: merging.current(old.value, data), problem: null }));
    });
  }, [topic]);
  return state.topic === topic ? state : { value: null, problem: null };
}

interface Rows<T> {
  rows?: T[];
  gone?: string[];
  many?: boolean;
}

/** Between two reads of a list of which too much changes. */
const REST = 2000;

/** A list that is read once and then kept up to date: changed rows replace theirs, new ones that pass come first. */
export function useRows<T extends { id: string }>(topic: string, path: string, passes: (row: T) => boolean): Read<T[]> & { more: boolean } {
  const read = useGet<Page<T>>(path);
  const [changed, set] = useState<Map<string, T | null>>(new Map());
  const last = useRef(0);
  const { again } = read;
  const value = read.value;
  useEffect(() => {
    set(new Map());
    last.current = Date.now();
  }, [value]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = listen(topic, (kind, data) => {
      if (kind === 'refused') return;
      const { rows, gone, many } = (data ?? {}) as Rows<T>;
      if (kind === 'snapshot' && !rows) {
        // Its rows are read as a list; what a broken stream missed is in that.
        if (last.current > 0 && Date.now() - last.current > REST) again();
        return;
      }
      if (many) {
        timer ??= setTimeout(
          () => {
            timer = undefined;
            again();
          },
          Math.max(0, REST - (Date.now() - last.current)),
        );
        return;
      }
      set((old) => {
        const next = new Map(old);
        for (const row of rows ?? []) next.set(row.id, row);
        for (const id of gone ?? []) next.set(id, null);
        return next;
      });
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [topic, again]);
  if (!value) return { ...read, value: null, more: false };
  const known = new Set(value.items.map((row) => row.id));
  const fresh = [...changed].filter(([id, row]) => row && !known.has(id)).map(([, row]) => row as T);
  const kept = value.items.map((row) => (changed.has(row.id) ? changed.get(row.id) : row)).filter((row): row is T => !!row);
  return { ...read, value: [...fresh.reverse(), ...kept].filter(passes), more: !!value.next_cursor };
}
