// The graph of a flow in its view: moved by dragging, zoomed by the wheel, walked with the keys. Its twin is the table of steps.

import { useEffect, useRef } from 'preact/hooks';
import type { FlowState, Graph } from '../api/types';
import { Drawing, Grid, whole, zoomed } from './draw';

interface Props {
  graph: Graph;
  state: FlowState | null;
  chosen: number | null;
  choose: (node: number | null) => void;
}

export function GraphCanvas({ graph, state, chosen, choose }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const choosing = useRef(choose);
  choosing.current = choose;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const drawn = new Drawing(element, graph, state, chosen);
    drawing.current = drawn;
    drawn.redraw();
    const grid = new Grid(graph);
    let drag: { x: number; y: number; moved: boolean } | null = null;
    const down = (event: PointerEvent) => {
      drag = { x: event.clientX, y: event.clientY, moved: false };
      element.setPointerCapture(event.pointerId);
    };
    const move = (event: PointerEvent) => {
      if (!drag) return;
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      drag = { x: event.clientX, y: event.clientY, moved: true };
      drawn.move({ ...drawn.camera, x: drawn.camera.x + dx, y: drawn.camera.y + dy });
    };
    const up = (event: PointerEvent) => {
      if (drag && !drag.moved) {
        const box = element.getBoundingClientRect();
        const { x, y, scale } = drawn.camera;
        choosing.current(grid.at((event.clientX - box.left - x) / scale, (event.clientY - box.top - y) / scale));
      }
      drag = null;
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const box = element.getBoundingClientRect();
      const factor = Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002));
      drawn.move(zoomed(drawn.camera, factor, event.clientX - box.left, event.clientY - box.top));
    };
    const resized = new ResizeObserver(() => drawn.redraw());
    resized.observe(element);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const repaint = () => drawn.redraw();
    scheme.addEventListener('change', repaint);
    const theme = new MutationObserver(repaint);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    element.addEventListener('pointerdown', down);
    element.addEventListener('pointermove', move);
    element.addEventListener('pointerup', up);
    element.addEventListener('wheel', wheel, { passive: false });
    return () => {
      drawn.stop();
      resized.disconnect();
      theme.disconnect();
      scheme.removeEventListener('change', repaint);
      element.removeEventListener('pointerdown', down);
      element.removeEventListener('pointermove', move);
      element.removeEventListener('pointerup', up);
      element.removeEventListener('wheel', wheel);
    };
  }, [graph]);
  useEffect(() => drawing.current?.show(state, chosen), [state, chosen]);
  const zoom = (factor: number) => {
    const drawn = drawing.current;
    const element = canvas.current;
    if (drawn && element) drawn.move(zoomed(drawn.camera, factor, element.clientWidth / 2, element.clientHeight / 2));
  };
  const fit = () => {
    const element = canvas.current;
    if (element) drawing.current?.move(whole(graph, element.clientWidth, element.clientHeight));
  };
  return (
    <div class="graph">
      <canvas ref={canvas} aria-hidden="true" />
      <div class="zoom">
        <button type="button" onClick={() => zoom(1.4)} title="Zoom in">
          +
        </button>
        <button type="button" onClick={() => zoom(1 / 1.4)} title="Zoom out">
          −
        </button>
        <button type="button" onClick={fit} title="Show all">
          ⤢
        </button>
      </div>
    </div>
  );
}
