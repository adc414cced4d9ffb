// One flow: its graph, its steps over time and as a table, and the step that was chosen.

import type { Flow, FlowState, Graph, NodeColumns } from '../api/types';
import { at, go, href } from '../ui/address';
import { Do, type Action } from '../ui/dialog';
import { Ago, Command, Failed, Loading, Progress, State, Text, Took } from '../ui/parts';
import { useGet, useTopic } from '../ui/use';
import { GraphCanvas } from '../graph/canvas';
import { decisions } from './approvals';
import { Timeline } from './timeline';
import { Log } from '../logs/log';

interface Delta {
  seq: number;
  flow?: FlowState['flow'];
  nodes?: NodeColumns;
  deleted?: boolean;
}

function merge(old: FlowState, change: unknown): FlowState {
  const delta = change as Delta;
  if (delta.deleted) return { ...old, flow: { ...old.flow, phase: 'Deleted' } };
  const index = delta.nodes?.index;
  if (!index || !delta.nodes) return { ...old, seq: delta.seq, flow: delta.flow ?? old.flow };
  const nodes = { ...old.nodes };
  for (const [name, column] of Object.entries(delta.nodes) as [keyof NodeColumns, unknown[]][]) {
    if (name === 'index') continue;
    const next = [...((nodes[name] ?? []) as unknown[])];
    index.forEach((node, place) => {
      next[node] = column[place];
    });
    (nodes as Record<string, unknown[]>)[name] = next;
  }
  return { seq: delta.seq, flow: delta.flow ?? old.flow, nodes };
}

export function View({ id }: { id: string }) {
  const flow = useGet<Flow>(`/flows/${encodeURIComponent(id)}`);
  const uid = flow.value?.id ?? null;
  const graph = useGet<Graph>(uid && `/flows/${encodeURIComponent(uid)}/graph?fold=never`);
  const live = useTopic<FlowState>(uid && `flow:${uid}`, merge);
  if (flow.problem && !flow.value) return <Failed problem={flow.problem} retry={flow.again} />;
  if (live.problem) return <Failed problem={live.problem} />;
  if (!flow.value || !live.value) return <Loading />;
  const names = graph.value?.nodes.name ?? [];
  const step = at.value.query.get('step');
  const found = step === null ? -1 : names.indexOf(step);
  const chosen = found < 0 ? null : found;
  const tab = at.value.parts[2] ?? 'graph';
  const choose = (node: number | null) =>
    go(href(['flows', id, ...(tab === 'graph' ? [] : [tab])], { step: node === null ? '' : (names[node] ?? '') }), true);
  return (
    <>
      <Title flow={flow.value} state={live.value} />
      <div class="tabs" role="navigation" aria-label="Views of the flow">
        <a href={href(['flows', id], step ? { step } : {})} aria-current={tab === 'graph' ? 'page' : undefined}>
          Graph
        </a>
        <a href={href(['flows', id, 'timeline'], step ? { step } : {})} aria-current={tab === 'timeline' ? 'page' : undefined}>
          Timeline
        </a>
        <a href={href(['flows', id, 'steps'], step ? { step } : {})} aria-current={tab === 'steps' ? 'page' : undefined}>
          Steps
        </a>
      </div>
      <div class={chosen === null ? 'split' : 'split with-panel'}>
        <div class="wide">
          {graph.problem && !graph.value ? (
            <Failed problem={graph.problem} retry={graph.again} />
          ) : !graph.value ? (
            <Loading />
          ) : tab === 'graph' ? (
            <>
              <GraphCanvas graph={graph.value} state={live.value} chosen={chosen} choose={choose} />
              <details class="twin">
                <summary>The same as a table</summary>
                <Steps graph={graph.value} state={live.value} chosen={chosen} choose={choose} />
              </details>
            </>
          ) : tab === 'timeline' ? (
            <Timeline graph={graph.value} state={live.value} chosen={chosen} choose={choose} />
          ) : (
            <Steps graph={graph.value} state={live.value} chosen={chosen} choose={choose} />
          )}
        </div>
        {chosen !== null && graph.value && <Panel flow={flow.value} graph={graph.value} state={live.value} node={chosen} close={() => choose(null)} />}
      </div>
    </>
  );
}

function Title({ flow, state }: { flow: Flow; state: FlowState }) {
  const { phase, message, progress, started_at, ended_at } = state.flow;
  const ended = phase === 'Succeeded' || phase === 'Failed';
  const path = `/flows/${encodeURIComponent(flow.id)}`;
  const action = (verb: string, title: string, says: string, more: Partial<Action> = {}): Action => ({
    title,
    says,
    role: 'submitter',
    method: 'POST',
    path: `${path}/${verb}`,
    command: ['orlop', 'flow', verb, flow.name, '--target', 'fleet'],
    ...more,
  });
  const over = ended ? 'the flow has ended' : null;
  return (
    <>
      <div class="title">
        <h1>
          <Text text={flow.name} most={256} /> <State state={phase} />
        </h1>
        <Command words={['orlop', 'flow', 'get', flow.name, '--target', 'fleet']} />
      </div>
      <p class="facts">
        <Progress progress={progress} phase={phase} />
        <span>
          took <Took from={started_at} to={ended_at} />
        </span>
        <span>
          submitted <Ago time={flow.created_at} />
          {flow.by && (
            <>
              {' '}
              by <Text text={flow.by} most={64} />
            </>
          )}
        </span>
        <span>
          tenant <Text text={flow.tenant} most={64} />
        </span>
        <span class="actions">
          {phase === 'Suspended' ? (
            <Do label="Resume" action={action('resume', 'Resume', 'Steps start again.')} />
          ) : (
            <Do label="Suspend" why={over} action={action('suspend', 'Suspend', 'No further step starts; what runs goes on.')} />
          )}
          <Do
            label="Stop"
            why={over}
            action={action('cancel', 'Stop', 'No further step starts. What runs goes on to its end, then the steps of finally run.', {
              body: { graceful: true },
              command: ['orlop', 'flow', 'stop', flow.name, '--target', 'fleet'],
              danger: true,
            })}
          />
          <Do
            label="Terminate"
            why={over}
            action={action('cancel', 'Terminate', 'What runs is cancelled; no other step starts, and none of finally.', {
              body: { graceful: false },
              command: ['orlop', 'flow', 'terminate', flow.name, '--target', 'fleet'],
              danger: true,
            })}
          />
          <Do
            label="Retry"
            why={ended ? null : 'the flow has not ended'}
            action={action('retry', 'Retry', 'What failed runs again in a new flow; what succeeded is reused.')}
          />
          <Do
            label="Delete"
            why={ended ? null : 'the flow has not ended'}
            action={{
              ...action('delete', 'Delete', 'The flow is deleted with its history.'),
              method: 'DELETE',
              path,
              types: flow.name,
              danger: true,
              done: () => go(href(['flows'])),
            }}
          />
        </span>
      </p>
      {message && (
        <p class={phase === 'Failed' ? 'message tone-bad' : 'message'}>
          <Text text={message} />
        </p>
      )}
    </>
  );
}

interface Shown {
  graph: Graph;
  state: FlowState;
  chosen: number | null;
  choose: (node: number | null) => void;
}

/** Rows of a table, at most. */
const ROWS = 500;

function Steps({ graph, state, chosen, choose }: Shown) {
  const { nodes } = state;
  const order = graph.nodes.name.map((_, node) => node).sort((a, b) => (graph.nodes.wave[a] ?? 0) - (graph.nodes.wave[b] ?? 0) || a - b);
  return (
    <table class="cards-when-narrow">
      <thead>
        <tr>
          <th>Step</th>
          <th>State</th>
          <th class="right">Wave</th>
          <th class="right">Attempt</th>
          <th class="right">Took</th>
          <th>Why</th>
        </tr>
      </thead>
      <tbody>
        {order.slice(0, ROWS).map((node) => (
          <tr key={node} class={node === chosen ? 'chosen' : ''}>
            <td>
              <button type="button" class="link" aria-pressed={node === chosen} onClick={() => choose(node === chosen ? null : node)}>
                <Text text={graph.nodes.name[node] ?? ''} most={256} />
              </button>
              {graph.nodes.finally[node] && <span class="tag">finally</span>}
            </td>
            <td>
              <State state={nodes.phase[node] ?? ''} />
            </td>
            <td class="right number">{graph.nodes.wave[node]}</td>
            <td class="right number">{nodes.attempt[node] || ''}</td>
            <td class="right">
              <Took from={nodes.started_at[node]} to={nodes.ended_at[node]} />
            </td>
            <td class="message">
              <Text text={nodes.message[node] || nodes.reason[node] || ''} most={256} />
            </td>
          </tr>
        ))}
        {order.length > ROWS && (
          <tr>
            <td colSpan={6} class="faint">
              {order.length - ROWS} more steps are in the graph.
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function Panel({ flow, graph, state, node, close }: { flow: Flow; graph: Graph; state: FlowState; node: number; close: () => void }) {
  const { nodes } = state;
  const name = graph.nodes.name[node] ?? '';
  const phase = nodes.phase[node] ?? '';
  const job = nodes.job[node];
  const counts = nodes.instances[node];
  const step = useGet<{ outputs?: Record<string, string>; message?: string }>(
    `/flows/${encodeURIComponent(flow.id)}/steps/${encodeURIComponent(name)}`,
  );
  const waitsFor = graph.edges.to.flatMap((to, edge) => (to === node ? [graph.edges.from[edge] ?? 0] : []));
  const open = waitsFor.filter((from) => !['Succeeded', 'Skipped'].includes(nodes.phase[from] ?? ''));
  const [approve, reject] = decisions(flow.id, flow.name, name, nodes.message[node] ?? '');
  return (
    <aside class="panel" aria-label="Step">
      <div class="title">
        <h2>
          <Text text={name} most={256} />
        </h2>
        <button type="button" class="quiet" onClick={close} title="Close">
          ✕<span class="visually-hidden">Close</span>
        </button>
      </div>
      <p>
        <State state={phase} />{' '}
        {nodes.reason[node] && (
          <span class="faint">
            <Text text={nodes.reason[node] ?? ''} most={128} />
          </span>
        )}
      </p>
      {nodes.message[node] && (
        <p class="message">
          <Text text={nodes.message[node] ?? ''} />
        </p>
      )}
      {phase === 'Pending' && open.length > 0 && (
        <p>
          waits for{' '}
          {open.slice(0, 8).map((from, place) => (
            <span key={from}>
              {place > 0 && ', '}
              <Text text={graph.nodes.name[from] ?? ''} most={64} /> (<State state={nodes.phase[from] ?? ''} />)
            </span>
          ))}
          {open.length > 8 && ` and ${open.length - 8} more`}
        </p>
      )}
      {phase === 'PendingApproval' && (
        <p class="actions">
          <Do action={approve} label="Approve" />
          <Do action={reject} label="Reject" />
        </p>
      )}
      {counts && (
        <p>
          {counts[0]} instances: {counts[1]} running, {counts[2]} succeeded, {counts[3]} failed, {counts[4]} skipped
        </p>
      )}
      <dl class="facts-list">
        <dt>attempt</dt>
        <dd class="number">{nodes.attempt[node] || 'none yet'}</dd>
        <dt>took</dt>
        <dd>
          <Took from={nodes.started_at[node]} to={nodes.ended_at[node]} />
        </dd>
        {nodes.next_retry_at[node] && (
          <>
            <dt>next attempt</dt>
            <dd class="number">{new Date(nodes.next_retry_at[node] ?? 0).toLocaleTimeString('en-GB')}</dd>
          </>
        )}
        {job && (
          <>
            <dt>job</dt>
            <dd>
              <a href={href(['jobs', job])}>{job}</a>
            </dd>
          </>
        )}
      </dl>
      {Object.entries(step.value?.outputs ?? {}).length > 0 && (
        <>
          <h3>Outputs</h3>
          <dl class="facts-list">
            {Object.entries(step.value?.outputs ?? {}).map(([key, value]) => (
              <div key={key}>
                <dt>
                  <Text text={key} most={128} />
                </dt>
                <dd>
                  <Text text={value} />
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
      <Command words={['orlop', 'flow', 'logs', flow.name, name, '--target', 'fleet']} />
      {job && <Log key={job} job={job} lines={12} />}
    </aside>
  );
}
