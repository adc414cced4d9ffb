// One job: why it is where it is, its attempts, its log.

import type { Attempt, Job, Page } from '../api/types';
import { href } from '../ui/address';
import { Do } from '../ui/dialog';
import { Ago, Command, Failed, Loading, State, Text, Took } from '../ui/parts';
import { useGet, useTopic } from '../ui/use';
import { count } from '../text/format';
import { Log } from '../logs/log';

const ENDED = ['Completed', 'Failed', 'TimedOut', 'Cancelled'];

export function View({ id }: { id: string }) {
  const read = useGet<Job>(`/jobs/${encodeURIComponent(id)}`);
  const live = useTopic<Job>(`job:${id}`, (_, delta) => delta as Job);
  if (read.problem && !read.value) return <Failed problem={read.problem} retry={read.again} />;
  if (!read.value) return <Loading />;
  const job: Job = { ...read.value, ...live.value };
  const ended = ENDED.includes(job.state);
  const path = `/jobs/${encodeURIComponent(id)}`;
  return (
    <>
      <div class="title">
        <h1>
          <Text text={job.name ?? job.id} most={256} /> <State state={job.state} />
        </h1>
        <Command words={['orlop', 'job', 'get', job.id]} />
      </div>
      <p class="facts">
        <span>{job.id}</span>
        {job.count > 1 && <span>{count(job.count)} elements</span>}
        <span>
          submitted <Ago time={job.submitted_at} />
        </span>
        <span>
          ran <Took from={job.started_at} to={job.finished_at} />
        </span>
        {job.flow && (
          <span>
            step of{' '}
            <a href={href(['flows', job.flow])}>
              <Text text={job.step ?? job.flow} most={128} />
            </a>
          </span>
        )}
        {job.exit_code !== undefined && <span class="number">exit {job.exit_code}</span>}
        <span class="actions">
          <Do
            label="Cancel"
            why={ended ? 'the job has ended' : null}
            action={{
              title: 'Cancel',
              says: `${job.id} is ${job.state}; what runs of it is ended.`,
              role: 'submitter',
              method: 'POST',
              path: `${path}/cancel`,
              command: ['orlop', 'cancel', job.id],
              danger: true,
            }}
          />
          <Do
            label="Submit again"
            why={ended ? null : 'the job has not ended'}
            action={{
              title: 'Submit again',
              says: 'The same job is submitted again, of an array the elements that did not succeed.',
              role: 'submitter',
              method: 'POST',
              path: `${path}/retry`,
              command: ['orlop', 'job', 'retry', job.id],
              done: () => read.again(),
            }}
          />
        </span>
      </p>
      {job.reason && ended && (
        <p class={job.state === 'Completed' ? 'message' : 'message tone-bad'}>
          <Text text={[job.reason, job.message].filter(Boolean).join(': ')} />
        </p>
      )}
      {!ended && job.state !== 'Running' && <Explained id={id} state={job.state} />}
      <Attempts id={id} attempt={job.attempt} state={job.state} />
      {job.attempt > 0 && (
        <section>
          <h2>Log</h2>
          <Log key={`${id}/${job.attempt}`} job={id} lines={24} />
        </section>
      )}
      {job.spec !== undefined && (
        <details>
          <summary>Specification</summary>
          <pre>
            <Text text={JSON.stringify(job.spec, null, 2)} most={65_536} />
          </pre>
        </details>
      )}
    </>
  );
}

interface Explanation {
  state: string;
  summary?: string;
  workers?: { worker: string; reasons?: string[]; fits?: boolean; [key: string]: unknown }[];
  [key: string]: unknown;
}

function Explained({ id, state }: { id: string; state: string }) {
  const { value, problem } = useGet<Explanation>(`/jobs/${encodeURIComponent(id)}/explain`);
  if (problem) return null;
  if (!value) return <Loading />;
  return (
    <section class="explained" key={state}>
      <h2>Why it waits</h2>
      <Facts value={value} depth={0} />
    </section>
  );
}

/** Any value as a list of facts: the words are those of the server. */
function Facts({ value, depth }: { value: unknown; depth: number }) {
  if (value === null || value === undefined || value === '') return null;
  if (Array.isArray(value)) {
    return (
      <ul>
        {value.slice(0, 50).map((one, place) => (
          <li key={place}>
            <Facts value={one} depth={depth + 1} />
          </li>
        ))}
      </ul>
    );
  }
  if (typeof value === 'object') {
    const rows = Object.entries(value).filter(([, one]) => one !== null && one !== '' && !(Array.isArray(one) && one.length === 0));
    return (
      <dl class={depth === 0 ? 'facts-list' : 'facts-line'}>
        {rows.map(([name, one]) => (
          <div key={name}>
            <dt>{name.replaceAll('_', ' ')}</dt>
            <dd>
              <Facts value={one} depth={depth + 1} />
            </dd>
          </div>
        ))}
      </dl>
    );
  }
  return <Text text={String(value)} most={1024} />;
}

function Attempts({ id, attempt, state }: { id: string; attempt: number; state: string }) {
  const { value } = useGet<Page<Attempt>>(attempt > 0 ? `/jobs/${encodeURIComponent(id)}/attempts?limit=50` : null);
  if (!value || value.items.length === 0) return null;
  return (
    <section key={`${attempt}/${state}`}>
      <h2>Attempts</h2>
      <table>
        <thead>
          <tr>
            <th>State</th>
            <th class="right">Attempt</th>
            <th>Worker</th>
            <th class="right">Waited for its start</th>
            <th class="right">Ran</th>
            <th class="right">Exit</th>
            <th>Reason</th>
          </tr>
        </thead>
        <tbody>
          {value.items.map((row) => (
            <tr key={`${row.index}/${row.attempt}/${row.worker}`}>
              <td>
                <State state={row.state} />
              </td>
              <td class="right number">{row.attempt}</td>
              <td>
                <a href={href(['workers', row.worker])}>{row.worker}</a>
              </td>
              <td class="right">
                <Took from={row.assigned_at} to={row.started_at ?? row.finished_at} />
              </td>
              <td class="right">
                <Took from={row.started_at} to={row.finished_at} />
              </td>
              <td class="right number">{row.exit_code}</td>
              <td class="message">
                <Text text={row.reason ?? ''} most={256} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
