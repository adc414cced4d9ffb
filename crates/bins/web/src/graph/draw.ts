// The graph of a flow on a canvas. The scene is drawn into a bitmap somewhat larger than the view; moving and zooming move that bitmap,
// and it is drawn anew once the gesture rests or a state changes.

import type { FlowState, Graph } from '../api/types';
import { look, type Tone } from '../text/state';
import { visible } from '../text/format';

export interface Camera {
  x: number;
  y: number;
  scale: number;
}

/** Names are drawn where a box is at least so wide on the screen. */
const NAMED = 48;
const MARGIN = 0.5;
const SMALLEST = 0.02;
const LARGEST = 3;

type Colours = Record<Tone | 'line' | 'text' | 'faint' | 'surface' | 'chosen', string>;

/** The colours of the theme, as a canvas takes them. */
function colours(element: Element): Colours {
  const probe = element.appendChild(document.createElement('span'));
  const of = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const all = {
    idle: of('idle'),
    wait: of('wait'),
    run: of('run'),
    ask: of('ask'),
    good: of('good'),
    bad: of('bad'),
    off: of('off'),
    line: of('line-strong'),
    text: of('text'),
    faint: of('faint'),
    surface: of('surface'),
    chosen: of('accent'),
  };
  probe.remove();
  return all;
}

/** The camera that shows all of a graph. */
export function whole(graph: Graph, width: number, height: number): Camera {
  const scale = Math.min(1, (width - 32) / Math.max(1, graph.size.width), (height - 32) / Math.max(1, graph.size.height));
  return {
    scale: Math.max(SMALLEST, scale),
    x: (width - graph.size.width * scale) / 2,
    y: Math.max(16, (height - graph.size.height * scale) / 2),
  };
}

/** The camera after zooming by a factor about a point of the screen. */
export function zoomed(camera: Camera, factor: number, x: number, y: number): Camera {
  const scale = Math.min(LARGEST, Math.max(SMALLEST, camera.scale * factor));
  const by = scale / camera.scale;
  return { scale, x: x - (x - camera.x) * by, y: y - (y - camera.y) * by };
}

/** Boxes by the cells of a grid: picking looks at one cell. */
export class Grid {
  private readonly cells = new Map<string, number[]>();
  private readonly size: number;

  constructor(private readonly graph: Graph) {
    this.size = Math.max(graph.node_size.width, graph.node_size.height, 1) * 2;
    graph.nodes.x.forEach((x, node) => {
      const key = this.key(x, graph.nodes.y[node] ?? 0);
      const cell = this.cells.get(key);
      if (cell) cell.push(node);
      else this.cells.set(key, [node]);
    });
  }

  private key(x: number, y: number): string {
    return `${Math.floor(x / this.size)},${Math.floor(y / this.size)}`;
  }

  /** The node at a point of the drawing. */
  at(x: number, y: number): number | null {
    const { width, height } = this.graph.node_size;
    for (const dx of [0, -width]) {
      for (const dy of [0, -height]) {
        for (const node of this.cells.get(this.key(x + dx, y + dy)) ?? []) {
          const [left, top] = [this.graph.nodes.x[node] ?? 0, this.graph.nodes.y[node] ?? 0];
          if (x >= left && x < left + width && y >= top && y < top + height) return node;
        }
      }
    }
    return null;
  }
}

/** Draws the graph of a flow. */
export class Drawing {
  private bitmap: OffscreenCanvas | null = null;
  private drawn: Camera | null = null;
  private frame = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  camera: Camera;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly graph: Graph,
    private state: FlowState | null,
    private chosen: number | null,
  ) {
    this.camera = whole(graph, canvas.clientWidth, canvas.clientHeight);
  }

  /** Shows another state; drawn at most ten times a second. */
  show(state: FlowState | null, chosen: number | null): void {
    this.state = state;
    this.chosen = chosen;
    this.timer ??= setTimeout(() => this.redraw(), 100);
  }

  /** Moves the view; drawn anew once the gesture rests. */
  move(camera: Camera): void {
    this.camera = camera;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.copy());
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.redraw(), 80);
  }

  stop(): void {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }

  /** Draws the scene, and shows it. */
  redraw(): void {
    this.timer = undefined;
    const ratio = devicePixelRatio;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const [wide, high] = [width * (1 + 2 * MARGIN), height * (1 + 2 * MARGIN)];
    this.bitmap = new OffscreenCanvas(Math.round(wide * ratio), Math.round(high * ratio));
    const pen = this.bitmap.getContext('2d');
    if (!pen) return;
    pen.scale(ratio, ratio);
    pen.translate(width * MARGIN, height * MARGIN);
    this.scene(pen, wide, high);
    this.drawn = { ...this.camera };
    this.copy();
  }

  /** Shows the bitmap where the camera is now. */
  private copy(): void {
    this.frame = 0;
    const pen = this.canvas.getContext('2d');
    if (!pen || !this.bitmap || !this.drawn) return;
    const ratio = devicePixelRatio;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const by = this.camera.scale / this.drawn.scale;
    const x = this.camera.x - this.drawn.x * by - width * MARGIN * by;
    const y = this.camera.y - this.drawn.y * by - height * MARGIN * by;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.bitmap, x * ratio, y * ratio, this.bitmap.width * by, this.bitmap.height * by);
  }

  private scene(pen: OffscreenCanvasRenderingContext2D, wide: number, high: number): void {
    const { graph, camera } = this;
    const { width, height } = graph.node_size;
    const palette = colours(this.canvas);
    const [w, h] = [width * camera.scale, height * camera.scale];
    const left = -wide * MARGIN;
    const top = -high * MARGIN;
    const at = (node: number): [number, number] => [
      (graph.nodes.x[node] ?? 0) * camera.scale + camera.x,
      (graph.nodes.y[node] ?? 0) * camera.scale + camera.y,
    ];
    const seen = (x: number, y: number) => x + w > left && x < wide && y + h > top && y < high;
    this.edges(pen, palette, at, seen, w, h);
    if (graph.finally_y !== null) {
      const y = graph.finally_y * camera.scale + camera.y;
      pen.strokeStyle = palette.faint;
      pen.setLineDash([6, 6]);
      pen.beginPath();
      pen.moveTo(left, y);
      pen.lineTo(wide, y);
      pen.stroke();
      pen.setLineDash([]);
    }
    const phases = this.state?.nodes.phase ?? [];
    pen.textBaseline = 'middle';
    pen.font = `${Math.max(9, Math.min(13, 13 * camera.scale))}px system-ui, sans-serif`;
    graph.nodes.x.forEach((_, node) => {
      const [x, y] = at(node);
      if (!seen(x, y)) return;
      const { tone, symbol } = look(phases[node] ?? 'Pending');
      pen.fillStyle = palette.surface;
      pen.strokeStyle = node === this.chosen ? palette.chosen : palette[tone];
      pen.lineWidth = node === this.chosen ? 3 : 1.5;
      pen.beginPath();
      pen.roundRect(x, y, w, h, Math.min(6, h / 4));
      pen.fill();
      pen.globalAlpha = tone === 'idle' ? 0 : 0.16;
      pen.fillStyle = palette[tone];
      pen.fill();
      pen.globalAlpha = 1;
      pen.stroke();
      if (w < NAMED) return;
      const counts = this.state?.nodes.instances[node];
      const more = counts ? ` × ${counts[0]}` : '';
      pen.save();
      pen.beginPath();
      pen.rect(x + 4, y, w - 8, h);
      pen.clip();
      pen.fillStyle = tone === 'idle' ? palette.faint : palette[tone];
      pen.fillText(symbol, x + 8, y + h / 2);
      pen.fillStyle = palette.text;
      pen.fillText(visible(graph.nodes.name[node] ?? '', 64) + more, x + 8 + 16 * Math.min(1, Math.max(0.7, camera.scale)), y + h / 2);
      pen.restore();
      if (counts && counts[0] > 0) this.segments(pen, palette, counts, x, y + h - 4, w);
    });
  }

  /** The states of the instances of a fan-out along the lower edge of its box. */
  private segments(
    pen: OffscreenCanvasRenderingContext2D,
    palette: Colours,
    [total, running, succeeded, failed, skipped]: [number, number, number, number, number],
    x: number,
    y: number,
    w: number,
  ): void {
    let from = x;
    for (const [count, tone] of [[failed, 'bad'], [running, 'run'], [succeeded, 'good'], [skipped, 'off']] as [number, Tone][]) {
      const part = (w * count) / total;
      pen.fillStyle = palette[tone];
      pen.fillRect(from, y, part, 4);
      from += part;
    }
  }

  private edges(
    pen: OffscreenCanvasRenderingContext2D,
    palette: Colours,
    at: (node: number) => [number, number],
    seen: (x: number, y: number) => boolean,
    w: number,
    h: number,
  ): void {
    const { edges, bends } = this.graph;
    const through = new Map<number, [number, number][]>();
    bends.edge.forEach((edge, place) => {
      const x = (bends.x[place] ?? 0) * this.camera.scale + this.camera.x;
      const y = (bends.y[place] ?? 0) * this.camera.scale + this.camera.y;
      const known = through.get(edge);
      if (known) known.push([x, y]);
      else through.set(edge, [[x, y]]);
    });
    pen.lineWidth = 1;
    pen.strokeStyle = palette.line;
    pen.beginPath();
    edges.from.forEach((from, edge) => {
      const to = edges.to[edge] ?? 0;
      const [[fx, fy], [tx, ty]] = [at(from), at(to)];
      const points: [number, number][] = [[fx + w / 2, fy + h], ...(through.get(edge) ?? []), [tx + w / 2, ty]];
      if (!points.some(([x, y]) => seen(x, y)) && !seen(fx, fy) && !seen(tx, ty)) return;
      pen.moveTo(points[0]![0], points[0]![1]);
      for (let place = 1; place < points.length; place += 1) {
        const [[ax, ay], [bx, by]] = [points[place - 1]!, points[place]!];
        const middle = (ay + by) / 2;
        pen.bezierCurveTo(ax, middle, bx, middle, bx, by);
      }
    });
    pen.stroke();
  }
}
