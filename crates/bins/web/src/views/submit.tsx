// A flow to be submitted: a text that the server looks at as it is written, its parameters, and the graph it would be.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { send } from '../api/client';
import type { FlowState, Graph, Page } from '../api/types';
import { GraphCanvas } from '../graph/canvas';
import { go, href } from '../ui/address';
import { Do } from '../ui/dialog';
import { Command, Text } from '../ui/parts';
import { visible } from '../text/format';
import { session } from '../ui/session';
import { useGet } from '../ui/use';

interface Violation {
  severity: 'error' | 'warning';
  message: string;
  help?: string;
  path: string;
  at?: { line: number; column: number };
}

interface Parameter {
  name: string;
  value: string | null;
  required: boolean;
  enum: string[];
  description: string | null;
}

interface Checked {
  valid: boolean;
  flows: { name: string | null; steps: number; parameters: Parameter[] }[];
  report: { violations: Violation[]; omitted: { errors: number; warnings: number } };
  graph: Graph | null;
}

/** After so long without a key the text is looked at. */
const REST = 400;
/** After so long a check that failed is tried again. */
const AGAIN = 3000;
const DRAFT = 'orlop-draft';
/** Texts that are longer are not kept over a reload. */
const KEPT = 1 << 20;
/** The largest file that is opened, which is what the server takes. */
const LARGEST = 8 << 20;
/** Lines that have their number beside them. */
const NUMBERED = 20_000;

/** What the server says of this text; none while that is not known. */
function useChecked(text: string, backend: string): { checked: Checked | null; problem: unknown } {
  const [state, set] = useState<{ text: string; backend: string; checked: Checked | null; problem: unknown }>({ text, backend, checked: null, problem: null });
  const [round, next] = useState(0);
  useEffect(() => {
    if (!text.trim()) return;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const stop = new AbortController();
    const more = { 'Content-Type': 'application/json' };
    const timer = setTimeout(() => {
      const body = JSON.stringify({ definition: text, backend });
      send('/flows/validate', { method: 'POST', more, body, signal: stop.signal })
        .then((response) => response.json())
        .then(
          (checked: Checked) => set({ text, backend, checked, problem: null }),
          (problem: unknown) => {
            if (stop.signal.aborted) return;
            set({ text, backend, checked: null, problem });
            retry = setTimeout(() => next((value) => value + 1), AGAIN);
          },
        );
    }, REST);
    return () => {
      clearTimeout(timer);
      clearTimeout(retry);
      stop.abort();
    };
  }, [text, backend, round]);
  return state.text === text && state.backend === backend ? state : { checked: null, problem: null };
}

/** A flow of which nothing has begun. */
function pending(graph: Graph): FlowState {
  const of = <T,>(value: T): T[] => graph.nodes.name.map(() => value);
  return {
    seq: 0,
    flow: { phase: 'Pending', message: '', progress: '', started_at: null, ended_at: null },
    nodes: {
      phase: of('Pending'),
      reason: of(''),
      message: of(''),
      attempt: of(0),
      retries: of(0),
      started_at: of(null),
      ended_at: of(null),
      next_retry_at: of(null),
      job: of(null),
      instances: of(null),
    },
  };
}

/** Where a line and a column are in a text, both from 1; columns count characters. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let at = 1; at < line; at += 1) {
    const end = text.indexOf('\n', start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const rest = text.slice(start).split('\n', 1)[0] ?? '';
  return start + [...rest].slice(0, column - 1).join('').length;
}

/** The draft of the caller: another one who signs in here does not see it. */
function place(): string {
  return `${DRAFT} ${session.value?.caller ?? ''}`;
}

function draft(): string {
  return sessionStorage.getItem(place()) ?? '';
}

function keep(text: string): void {
  sessionStorage.removeItem(place());
  if (!text || text.length > KEPT) return;
  try {
    sessionStorage.setItem(place(), text);
  } catch {
    // There is no room: the text is not kept over a reload.
  }
}

export function View() {
  const [text, setText] = useState(draft);
  const [name, setName] = useState('');
  const tenants = useGet<Page<{ name: string }>>('/tenants').value?.items ?? [];
  const [tenant, setTenant] = useState('');
  const [backend, setBackend] = useState('docker');
  const [values, setValues] = useState<Map<string, string>>(new Map());
  const setValue = (name: string, value: string) => setValues(new Map(values).set(name, value));
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLPreElement>(null);
  const { checked, problem } = useChecked(text, backend);
  const [refused, setRefused] = useState('');
  useEffect(() => keep(text), [text]);
  const violations = checked?.report.violations ?? [];
  const bad = new Set(violations.filter(({ severity }) => severity === 'error').map(({ at }) => at?.line));
  const errors = violations.filter(({ severity }) => severity === 'error').length + (checked?.report.omitted.errors ?? 0);
  const lines = text.split('\n').length;
  const one = checked?.flows.length === 1 ? checked.flows[0] : null;
  const missing = one?.parameters.find((parameter) => parameter.required && !values.get(parameter.name));
  const given = Object.fromEntries([...values].filter(([key, value]) => value && one?.parameters.some((known) => known.name === key)));
  const why = !text.trim()
    ? 'write a flow first'
    : !checked
      ? problem
        ? 'it could not be checked'
        : 'the server checks it'
      : !checked.valid
        ? 'the flow has errors'
        : !one
          ? `the text holds ${checked.flows.length} flows; submit them with the command`
          : missing
            ? `the parameter ${missing.name} needs a value`
            : null;
  const show = (line: number, column: number) => {
    const at = offsetOf(text, line, column);
    area.current?.focus();
    area.current?.setSelectionRange(at, at + 1);
    if (area.current) area.current.scrollTop = Math.max(0, (line - 4) * 18);
  };
  const newest = useRef<File | null>(null);
  const take = async (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (!file) return;
    newest.current = file;
    setRefused(file.size > LARGEST ? `${file.name} is larger than 8 MiB` : '');
    if (file.size > LARGEST) return;
    try {
      const read = await file.text();
      // As the text area has its lines.
      if (newest.current === file) setText(read.replace(/\r\n?/g, '\n'));
    } catch {
      setRefused(`${file.name} cannot be read`);
    }
  };
  const numbers = useMemo(
    () => Array.from({ length: Math.min(lines, NUMBERED) }, (_, line) => `${bad.has(line + 1) ? '✖ ' : ''}${line + 1}`).join('\n'),
    [lines, checked],
  );
  const preview = useMemo(() => (checked?.graph ? { graph: checked.graph, state: pending(checked.graph) } : null), [checked]);
  const command = ['orlop', 'flow', 'submit', 'flow.yaml', '--target', 'fleet'];
  if (name) command.push('--name', name);
  if (tenant) command.push('--tenant', tenant);
  for (const [key, value] of Object.entries(given)) command.push('-p', `${key}=${value}`);
  return (
    <>
      <div class="title">
        <h1>Submit a flow</h1>
        <Command words={command} />
      </div>
      <div class="split with-panel">
        <div class="wide">
          <div
            class="editor"
            onDragOver={(event) => event.preventDefault()}
            onDrop={(event) => {
              event.preventDefault();
              void take(event.dataTransfer?.files);
            }}
          >
            <pre class="gutter" ref={gutter} aria-hidden="true">
              {numbers}
            </pre>
            <textarea
              ref={area}
              aria-label="The flow, as YAML or JSON"
              placeholder="Paste a flow or a pipeline as YAML or JSON, or drop a file here"
              spellcheck={false}
              wrap="off"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
              onScroll={(event) => {
                if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
              }}
            />
          </div>
          <p class="actions">
            <label class="file">
              Open a file <input type="file" accept=".yaml,.yml,.json" onChange={(event) => void take(event.currentTarget.files)} />
            </label>
          </p>
          {refused && (
            <p class="tone-bad" role="alert">
              <Text text={refused} />
            </p>
          )}
          {preview && <GraphCanvas graph={preview.graph} state={preview.state} chosen={null} choose={() => {}} />}
        </div>
        <aside class="panel" aria-label="What is submitted">
          <h2 aria-live="polite">
            {!text.trim()
              ? 'Nothing yet'
              : problem
                ? 'Not checked'
                : !checked
                  ? 'Checking…'
                  : checked.valid
                    ? one
                      ? `${one.steps} ${one.steps === 1 ? 'step' : 'steps'}`
                      : `${checked.flows.length} flows`
                    : errors === 1
                      ? '1 error'
                      : `${errors} errors`}
          </h2>
          {problem !== null && (
            <p class="tone-bad">
              <Text text={problem instanceof Error ? problem.message : String(problem)} />
            </p>
          )}
          <ul class="findings">
            {violations.map((violation, place) => (
              <li key={place} class={violation.severity === 'error' ? 'tone-bad' : 'tone-wait'}>
                {violation.at && (
                  <button type="button" class="link" onClick={() => violation.at && show(violation.at.line, violation.at.column)}>
                    line {violation.at.line}
                  </button>
                )}{' '}
                <span class="plain">
                  <Text text={violation.message} />
                  {violation.help && (
                    <span class="faint">
                      {' '}
                      (<Text text={violation.help} />)
                    </span>
                  )}
                </span>
              </li>
            ))}
          </ul>
          <form class="form" onSubmit={(event) => event.preventDefault()}>
            <label>
              Name <span class="faint">in place of the one in the text</span>
              <input value={name} placeholder={visible(one?.name ?? '', 256)} onInput={(event) => setName(event.currentTarget.value)} autocomplete="off" />
            </label>
            <label>
              Tenant
              <input value={tenant} list="tenants" placeholder="as usual" onInput={(event) => setTenant(event.currentTarget.value)} autocomplete="off" />
              <datalist id="tenants">
                {tenants.map((known) => (
                  <option key={known.name} value={known.name} />
                ))}
              </datalist>
            </label>
            <label>
              Steps run
              <select value={backend} onChange={(event) => setBackend(event.currentTarget.value)}>
                <option value="docker">in containers, where they name an image</option>
                <option value="process">as processes</option>
              </select>
            </label>
            {one?.parameters.map((parameter) => (
              <label key={parameter.name}>
                <span>
                  <Text text={parameter.name} most={128} />
                  {parameter.required && ' (needed)'}
                </span>
                {parameter.description && (
                  <span class="faint">
                    <Text text={parameter.description} most={512} />
                  </span>
                )}
                {parameter.enum.length > 0 ? (
                  <select
                    value={values.get(parameter.name) ?? parameter.value ?? ''}
                    onChange={(event) => setValue(parameter.name, event.currentTarget.value)}
                  >
                    {parameter.required && <option value="">choose</option>}
                    {parameter.enum.map((choice) => (
                      <option key={choice} value={choice}>
                        {visible(choice, 256)}
                      </option>
                    ))}
                  </select>
                ) : (
                  <input
                    value={values.get(parameter.name) ?? ''}
                    placeholder={visible(parameter.value ?? '', 256)}
                    onInput={(event) => setValue(parameter.name, event.currentTarget.value)}
                    autocomplete="off"
                  />
                )}
              </label>
            ))}
          </form>
          <p class="actions">
            <Do
              label="Submit"
              why={why}
              action={{
                title: 'Submit',
                says: visible(`${name || one?.name || 'The flow'} is begun${tenant ? ` for the tenant ${tenant}` : ''}.`, 512),
                role: 'submitter',
                method: 'POST',
                path: '/flows',
                body: { definition: text, parameters: given, backend, ...(name ? { name } : {}), ...(tenant ? { tenant } : {}) },
                command,
                done: (answer) => {
                  keep('');
                  go(href(['flows', (answer as { id: string }).id]));
                },
              }}
            />
          </p>
        </aside>
      </div>
    </>
  );
}
