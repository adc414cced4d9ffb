// Data of views: read once, then kept up to date by the live stream.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get, Problem } from '../api/client';
import type { Page } from '../api/types';
import { listen } from '../live/stream';

export interface Read<T> {
  value: T | null;
  /** When the value was asked for, by the clock of this machine. */
  asked: number;
  problem: unknown;
  again: () => void;
}

/** Reads a path, and again when that changes. */
export function useGet<T>(path: string | null): Read<T> {
  const [state, set] = useState<{ path: string | null; value: T | null; asked: number; problem: unknown }>({ path, value: null, asked: 0, problem: null });
  const [round, next] = useState(0);
  const reading = useRef(false);
  const afterwards = useRef(false);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    const asked = Date.now();
    reading.current = true;
    const end = () => {
      reading.current = false;
      if (afterwards.current) next((value) => value + 1);
      afterwards.current = false;
    };
    get<T>(path, stop.signal).then(
      (value) => {
        if (stop.signal.aborted) return;
        set({ path, value, asked, problem: null });
        end();
      },
      (problem: unknown) => {
        if (stop.signal.aborted) return;
        set((old) => ({ path, value: old.path === path ? old.value : null, asked: old.asked, problem }));
        end();
      },
    );
    return () => stop.abort();
  }, [path, round]);
  // A read that is under way is finished first: changes that come all the time do not keep it from ending.
  const again = useCallback(() => {
    if (reading.current) afterwards.current = true;
    else next((value) => value + 1);
  }, []);
  return { value: state.path === path ? state.value : null, asked: state.asked, problem: state.problem, again };
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
/** A list is read without the stream where that does not begin for so long. */
const PATIENCE = 1000;

interface Changed<T> {
  /** None = it is gone. */
  row: T | null;
  /** When it was heard of. */
  at: number;
}

/**
 * A list that is read once and then kept up to date: changed rows replace theirs, new ones that pass come first. It is read after the
 * stream has begun, and a change that was heard of after it was asked for stays: so none is lost between the two.
 */
export function useRows<T extends { id: string }>(topic: string, path: string, passes: (row: T) => boolean): Read<T[]> & { more: boolean } {
  const [begun, begin] = useState(false);
  const read = useGet<Page<T>>(begun ? path : null);
  const [changed, set] = useState<Map<string, Changed<T>>>(new Map());
  const last = useRef(0);
  const { again, value, asked } = read;
  useEffect(() => {
    set((old) => new Map([...old].filter(([, change]) => change.at >= asked)));
    last.current = Date.now();
  }, [value]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let opened = false;
    const first = setTimeout(() => {
      opened = true;
      begin(true);
    }, PATIENCE);
    const stop = listen(topic, (kind, data) => {
      if (kind === 'refused') return begin(true);
      const { rows, gone, many } = (data ?? {}) as Rows<T>;
      if (kind === 'snapshot' && !rows) {
        // Its rows are read as a list; what a broken stream missed is in that.
        if (opened) again();
        opened = true;
        begin(true);
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
      const at = Date.now();
      set((old) => {
        const next = new Map(old);
        for (const row of rows ?? []) next.set(row.id, { row, at });
        for (const id of gone ?? []) next.set(id, { row: null, at });
        return next;
      });
    });
    return () => {
      stop();
      clearTimeout(timer);
      clearTimeout(first);
    };
  }, [topic, again]);
  if (!value) return { ...read, value: null, more: false };
  const known = new Set(value.items.map((row) => row.id));
  const fresh = [...changed].flatMap(([id, { row }]) => (row && !known.has(id) ? [row] : []));
  const kept = value.items.flatMap((row) => {
    const change = changed.get(row.id);
    const shown = change ? change.row : row;
    return shown ? [shown] : [];
  });
  return { ...read, value: [...fresh.reverse(), ...kept].filter(passes), more: !!value.next_cursor };
}
