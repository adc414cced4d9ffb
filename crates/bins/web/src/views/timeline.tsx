// The steps of a flow over time: a row for each that has begun, in order of start. Only the rows in view are drawn.

import { useMemo, useRef, useState } from 'preact/hooks';
import type { FlowState, Graph } from '../api/types';
import { Text, useNow } from '../ui/parts';
import { clock, span } from '../text/format';
import { look } from '../text/state';

/** Of a row, in pixels. */
const HEIGHT = 24;
/** Rows that are drawn above and below what is in view. */
const MORE = 10;
/** The shortest time that can be chosen, in milliseconds. */
const SHORTEST = 10;

export interface Range {
  from: number;
  to: number;
}

export interface Row {
  node: number;
  from: number;
  to: number | null;
  /** When its next attempt is due. */
  retry: number | null;
}

/** The steps that have begun, in order of start. */
export function rowsOf(state: FlowState): Row[] {
  const { nodes } = state;
  const rows: Row[] = [];
  nodes.started_at.forEach((from, node) => {
    const to = nodes.ended_at[node] ?? null;
    if (from !== null) rows.push({ node, from, to, retry: nodes.next_retry_at[node] ?? null });
  });
  return rows.sort((a, b) => a.from - b.from || a.node - b.node);
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((count) => count * DAY),
];

/** Times of a range that are round after `begin`, at most so many. */
export function ticks({ from, to }: Range, begin: number, most: number): number[] {
  const step = STEPS.find((step) => (to - from) / step < most) ?? STEPS[STEPS.length - 1] ?? DAY;
  const found: number[] = [];
  for (let time = begin + Math.ceil((from - begin) / step) * step; time <= to && found.length < most; time += step) found.push(time);
  return found;
}

/** Midnight before a time, by the clock of this machine. */
function midnight(time: number): number {
  return new Date(time).setHours(0, 0, 0, 0);
}

/** A time as a share of a range, within it. */
export function share(time: number, { from, to }: Range): number {
  return Math.min(1, Math.max(0, (time - from) / Math.max(1, to - from)));
}

/** A tick as it is named: within seconds since the flow began, else by the clock or the day. */
function label(time: number, range: Range, begin: number): string {
  const length = range.to - range.from;
  if (length < SECOND) return `+${Math.round(time - begin)}ms`;
  if (length < 10 * SECOND) return `+${((time - begin) / SECOND).toFixed(1)}s`;
  if (length > 2 * DAY) return new Date(time).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  return clock(time, false);
}

/** The second half of a range. */
function later({ from, to }: Range): Range {
  return { from: Math.min(to - SHORTEST, (from + to) / 2), to };
}

const percent = (share: number) => `${(share * 100).toFixed(3)}%`;

interface Props {
  graph: Graph;
  state: FlowState;
  chosen: number | null;
  choose: (node: number | null) => void;
}

export function Timeline({ graph, state, chosen, choose }: Props) {
  const ended = state.flow.ended_at;
  const now = useNow(ended === null);
  const [zoom, setZoom] = useState<Range | null>(null);
  const [drag, setDrag] = useState<Range | null>(null);
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => rowsOf(state), [state]);
  const first = rows[0];
  if (!first) return <p class="faint">No step has begun yet.</p>;
  const whole = { from: state.flow.started_at ?? first.from, to: Math.max(ended ?? now, first.from + SHORTEST) };
  const range = zoom ?? whole;
  const begin = Math.max(0, Math.floor(top / HEIGHT) - MORE);
  const drawn = rows.slice(begin, begin + Math.ceil((box.current?.clientHeight ?? 600) / HEIGHT) + 2 * MORE);
  const timeAt = (event: PointerEvent): number => {
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return range.from + ((event.clientX - area.left) / Math.max(1, area.width)) * (range.to - range.from);
  };
  const down = (event: PointerEvent) => {
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    const time = timeAt(event);
    setDrag({ from: time, to: time });
  };
  const move = (event: PointerEvent) => drag && setDrag({ ...drag, to: timeAt(event) });
  const up = () => {
    if (!drag) return;
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    setDrag(null);
    if (to - from >= Math.max(SHORTEST, (range.to - range.from) / 100)) setZoom({ from, to });
  };
  return (
    <div class="timeline" ref={box} onScroll={(event) => setTop(event.currentTarget.scrollTop)} tabIndex={0} role="region" aria-label="Timeline">
      <div class="timeline-head">
        <span class="faint">
          {rows.length} of {graph.nodes.name.length} steps have begun
        </span>
        <div
          class="axis"
          title="Drag to show a part of the time"
          onPointerDown={down}
          onPointerMove={move}
          onPointerUp={up}
          onPointerCancel={() => setDrag(null)}
        >
          {ticks(range, range.to - range.from < 10 * SECOND ? whole.from : midnight(range.from), 8).map((time) => (
            <span key={time} class="tick" style={{ left: percent(share(time, range)) }}>
              {label(time, range, whole.from)}
            </span>
          ))}
          {drag && (
            <span
              class="brush"
              style={{
                left: percent(share(Math.min(drag.from, drag.to), range)),
                width: percent(Math.abs(share(drag.to, range) - share(drag.from, range))),
              }}
            />
          )}
        </div>
        <span class="zoom-time">
          <button type="button" class="quiet" title="Show half of the time, to its end" onClick={() => setZoom(later(range))}>
            +
          </button>
          <button type="button" class="quiet" title="Show all of the time" disabled={zoom === null} onClick={() => setZoom(null)}>
            all
          </button>
        </span>
      </div>
      <ol style={{ height: `${rows.length * HEIGHT}px` }}>
        {drawn.map((row, place) => (
          <Line
            key={row.node}
            row={row}
            top={(begin + place) * HEIGHT}
            range={range}
            now={ended ?? now}
            name={graph.nodes.name[row.node] ?? ''}
            phase={state.nodes.phase[row.node] ?? ''}
            chosen={row.node === chosen}
            choose={() => choose(row.node === chosen ? null : row.node)}
          />
        ))}
      </ol>
    </div>
  );
}

interface LineProps {
  row: Row;
  top: number;
  range: Range;
  now: number;
  name: string;
  phase: string;
  chosen: boolean;
  choose: () => void;
}

function Line({ row, top, range, now, name, phase, chosen, choose }: LineProps) {
  const shown = look(phase);
  const to = row.to ?? now;
  const [left, right] = [share(row.from, range), share(to, range)];
  const retry = row.retry !== null && row.retry > to ? share(row.retry, range) : null;
  const outside = row.from > range.to || to < range.from;
  // Beside the bar where there is room, else in it.
  const inside = right > 0.85 && left < 0.15;
  const place = right <= 0.85 ? { left: percent(right) } : inside ? { left: percent(left) } : { right: percent(1 - left) };
  return (
    <li class={chosen ? 'timeline-row chosen' : 'timeline-row'} style={{ top: `${top}px` }}>
      <button type="button" class="link" aria-pressed={chosen} onClick={choose}>
        <Text text={name} most={128} />
      </button>
      <span class="area">
        {!outside && (
          <span class={`span fill-${shown.tone}`} style={{ left: percent(left), width: percent(Math.max(right - left, 0.001)) }} />
        )}
        {retry !== null && <span class="span delay" style={{ left: percent(right), width: percent(retry - right) }} />}
        <span class={outside ? 'visually-hidden' : inside ? 'note inside' : 'note'} style={place}>
          <span aria-hidden="true">{shown.symbol}</span> <span class="visually-hidden">{shown.word}, </span>
          {span(to - row.from)}
        </span>
      </span>
    </li>
  );
}
