// What the server answers, as far as the page reads it. Names are those of the API.

export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

export interface Session {
  caller: string;
  role: Role;
  tenants: string[];
  expires_at?: string;
}

export type Role = 'viewer' | 'submitter' | 'operator' | 'admin';

export interface Console {
  build: string;
  mode: string;
  server: { name?: string; version?: string; epoch?: number; time: string };
  session: Session | null;
  capabilities: string[];
  limits: { tick_ms: number; topics: number };
}

export interface Flow {
  id: string;
  name: string;
  tenant: string;
  phase: string;
  state: string;
  progress: string;
  message?: string;
  created_at: string;
  started_at?: string;
  ended_at?: string;
  pipeline?: string;
  version?: number;
  by?: string;
  cause?: string;
  steps?: Step[];
}

export interface Step {
  name: string;
  phase: string;
  reason?: string;
  message?: string;
  attempt: number;
  retries: number;
  lost: number;
  job?: string;
  started_at?: string;
  ended_at?: string;
  next_retry_at?: string;
  outputs?: Record<string, string>;
}

/** The steps of a flow as parallel arrays, in the order of the graph. Times are milliseconds since 1970. */
export interface FlowState {
  seq: number;
  flow: { phase: string; message: string; progress: string; started_at: number | null; ended_at: number | null };
  nodes: NodeColumns;
}

export interface NodeColumns {
  index?: number[];
  phase: string[];
  reason: string[];
  message: string[];
  attempt: number[];
  retries: number[];
  started_at: (number | null)[];
  ended_at: (number | null)[];
  next_retry_at: (number | null)[];
  job: (string | null)[];
  instances: ([number, number, number, number, number] | null)[];
}

export interface Graph {
  nodes: {
    name: string[];
    kind: string[];
    finally: boolean[];
    wave: number[];
    x: number[];
    y: number[];
  };
  edges: { from: number[]; to: number[]; needs: string[] };
  bends: { edge: number[]; x: number[]; y: number[] };
  size: { width: number; height: number };
  node_size: { width: number; height: number };
  finally_y: number | null;
  waves: number;
}

export interface Job {
  id: string;
  name?: string;
  tenant: string;
  state: string;
  kind: string;
  count: number;
  reason?: string;
  message?: string;
  attempt: number;
  retries: number;
  priority: number;
  flow?: string;
  step?: string;
  program?: string;
  exit_code?: number;
  submitted_at: string;
  started_at?: string;
  finished_at?: string;
  spec?: unknown;
}

export interface Attempt {
  index: number;
  attempt: number;
  worker: string;
  state: string;
  reason?: string;
  assigned_at?: string;
  started_at?: string;
  finished_at?: string;
  exit_code?: number;
}

export interface Worker {
  id: string;
  state: string;
  since: string;
  reason?: string;
  cordoned: boolean;
  draining: boolean;
  connected: boolean;
  attempts: number;
  cpu_allocated: number;
  memory_allocated: number;
  agent_version: string;
  capabilities: {
    cpu_m: number;
    memory_bytes: number;
    gpus: { model?: string; vendor?: string; count?: number }[];
    labels: Record<string, string>;
    runtimes: string[];
  };
  report?: { cpu_percent: number; load: number; memory_bytes: number; health: { check: string; ok: boolean }[] };
}

export interface Approval {
  id: string;
  flow: string;
  flow_name: string;
  tenant: string;
  step: string;
  message: string;
  since?: string;
}

export interface Overview {
  waiting: { total: number; why: { reason: string; count: number; text: string }[] };
  running: number;
  workers: Record<string, number>;
  allocation: { cpu: number; memory: number };
  failed: {
    count: number;
    at_least: boolean;
    reasons: { reason: string; count: number }[];
    newest: { id: string; name: string | null; flow: string | null; reason: string; exit_code: number | null; ended_at: string | null } | null;
  };
  blocked: { tenant: string; band: string; jobs: number; first: string; since: string; cpu_m: number; memory_bytes: number; gpus: number }[];
}
