// Requests to the server: with the proof of the session, and with problems as errors.

/** What the server says of a request that it refuses. */
export interface ProblemBody {
  title: string;
  status: number;
  detail: string;
  instance?: string;
  errors?: { path: string; message: string }[];
  retry_after_ms?: number;
}

/** A request that was refused, or was not answered. */
export class Problem extends Error {
  readonly status: number;
  readonly body: ProblemBody;

  constructor(body: ProblemBody) {
    super(body.detail || body.title);
    this.status = body.status;
    this.body = body;
  }
}

const PROOF = 'orlop-proof';

/** The path of the page, from the document. */
export const base = document.querySelector('meta[name="orlop-base"]')?.getAttribute('content') ?? '/ui/';
const api = new URL('../api/v1/', new URL(base, location.origin));

export const proof = {
  get: (): string | null => localStorage.getItem(PROOF),
  set: (value: string): void => localStorage.setItem(PROOF, value),
  clear: (): void => localStorage.removeItem(PROOF),
};

/** Called when a request is answered 401: the session is over. */
let onSignedOut: () => void = () => {};
export function whenSignedOut(call: () => void): void {
  onSignedOut = call;
}

function headers(more: Record<string, string>): Record<string, string> {
  const own = proof.get();
  return own ? { 'Orlop-Proof': own, ...more } : more;
}

/** The address of a path of the API. */
export function address(path: string): URL {
  return new URL(path.replace(/^\//, ''), api);
}

async function failed(response: Response): Promise<Problem> {
  let body: ProblemBody = { title: response.statusText, status: response.status, detail: '' };
  try {
    body = { ...body, ...((await response.json()) as Partial<ProblemBody>) };
  } catch {
    // Not JSON: what answered is not the server, such as a proxy.
  }
  return new Problem(body);
}

/** Sends a request; a refusal is thrown as a problem. */
export async function send(path: string, options: RequestInit & { more?: Record<string, string> } = {}): Promise<Response> {
  const { more, ...rest } = options;
  let response: Response;
  try {
    response = await fetch(address(path), { credentials: 'same-origin', ...rest, headers: headers(more ?? {}) });
  } catch {
    throw new Problem({ title: 'No answer', status: 0, detail: 'the server does not answer' });
  }
  if (response.status === 401 && !path.startsWith('/session')) onSignedOut();
  if (!response.ok) throw await failed(response);
  return response;
}

/** Reads a path of the API. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

/**
 * Changes something, once however often it is sent: `key` is made when its dialog opens. Without members there is no body: some routes
 * take none.
 */
export async function change<T>(method: string, path: string, body: Record<string, unknown>, key: string): Promise<T | null> {
  const more: Record<string, string> = method === 'POST' ? { 'Idempotency-Key': key } : {};
  const options: RequestInit = { method };
  if (Object.keys(body).length > 0) {
    more['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  const response = await send(path, { ...options, more });
  const text = await response.text();
  return text ? (JSON.parse(text) as T) : null;
}
