// The first view: what waits and why, what runs, what failed, what a person must decide, what fits nowhere.

import type { Approval, Overview as Data } from '../api/types';
import { href } from '../ui/address';
import { Ago, Bar, Empty, Failed, Loading, Text } from '../ui/parts';
import { useTopic } from '../ui/use';
import { bytes, count, percent } from '../text/format';

function merge(old: Data, delta: unknown): Data {
  return { ...old, ...(delta as Partial<Data>) };
}

/** Rows by their ids, with what changed put in. */
export function mergeRows<T extends { id: string }>(old: { rows: T[] }, delta: unknown): { rows: T[] } {
  const { rows = [], gone = [] } = delta as { rows?: T[]; gone?: string[] };
  const changed = new Map(rows.map((row) => [row.id, row]));
  const kept = old.rows.filter((row) => !gone.includes(row.id)).map((row) => changed.get(row.id) ?? row);
  const known = new Set(old.rows.map((row) => row.id));
  return { rows: [...kept, ...rows.filter((row) => !known.has(row.id))] };
}

export function Overview() {
  const { value, problem } = useTopic<Data>('overview', merge);
  const decide = useTopic<{ rows: Approval[] }>('approvals', mergeRows);
  if (problem) return <Failed problem={problem} />;
  if (!value) return <Loading />;
  const { waiting, failed, allocation, blocked } = value;
  const waits = decide.value?.rows ?? [];
  const workers = Object.values(value.workers).reduce((sum, of) => sum + of, 0);
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      <section class="cards">
        <article class={waiting.total ? 'card tone-wait' : 'card'}>
          <h2>
            <a href={href(['jobs'], { state: 'Queued,Pending,Backoff' })}>Waiting</a>
          </h2>
          <p class="big number">{count(waiting.total)}</p>
          <ul>
            {waiting.why.map((why) => (
              <li key={why.reason}>
                <b class="number">{count(why.count)}</b> {why.text}
              </li>
            ))}
            {waiting.total === 0 && <li class="faint">nothing waits</li>}
          </ul>
        </article>
        <article class="card tone-run">
          <h2>
            <a href={href(['jobs'], { state: 'Running' })}>Running</a>
          </h2>
          <p class="big number">{count(value.running)}</p>
          <dl class="fill">
            <dt>cpu</dt>
            <dd>
              <Bar share={allocation.cpu} label={`${percent(allocation.cpu)} of all processors are allocated`} />
              <span class="number">{percent(allocation.cpu)}</span>
            </dd>
            <dt>memory</dt>
            <dd>
              <Bar share={allocation.memory} label={`${percent(allocation.memory)} of all memory is allocated`} />
              <span class="number">{percent(allocation.memory)}</span>
            </dd>
          </dl>
          <p class="faint">
            <a href={href(['workers'])}>
              {count(workers)} {workers === 1 ? 'worker' : 'workers'}
            </a>
          </p>
        </article>
        <article class={failed.count ? 'card tone-bad' : 'card'}>
          <h2>
            <a href={href(['jobs'], { state: 'Failed,TimedOut' })}>Failed in the last hour</a>
          </h2>
          <p class="big number">
            {failed.at_least ? '≥ ' : ''}
            {count(failed.count)}
          </p>
          <ul>
            {failed.reasons.slice(0, 4).map((reason) => (
              <li key={reason.reason}>
                <b class="number">{count(reason.count)}</b> <Text text={reason.reason} most={64} />
              </li>
            ))}
            {failed.newest && (
              <li>
                newest{' '}
                <a href={href(['jobs', failed.newest.id])}>
                  <Text text={failed.newest.name ?? failed.newest.id} most={48} />
                </a>
                {failed.newest.exit_code !== null && <> exit {failed.newest.exit_code}</>} <Ago time={failed.newest.ended_at} />
              </li>
            )}
            {failed.count === 0 && <li class="faint">nothing failed</li>}
          </ul>
        </article>
        <article class={waits.length ? 'card tone-ask' : 'card'}>
          <h2>
            <a href={href(['approvals'])}>Decide</a>
          </h2>
          <p class="big number">{count(waits.length)}</p>
          <ul>
            {waits.slice(0, 4).map((row) => (
              <li key={row.id}>
                <a href={href(['flows', row.flow])}>
                  <Text text={`${row.flow_name}/${row.step}`} most={48} />
                </a>{' '}
                <Ago time={row.since} />
              </li>
            ))}
            {waits.length === 0 && <li class="faint">nobody is asked</li>}
          </ul>
        </article>
      </section>
      <section>
        <h2>What fits no worker now</h2>
        {blocked.length === 0 ? (
          <Empty command={['orlop', 'submit', '--', 'echo', 'hello']}>Everything that waits fits somewhere.</Empty>
        ) : (
          <table>
            <thead>
              <tr>
                <th>First job</th>
                <th>Tenant</th>
                <th class="right">Jobs</th>
                <th>Asks for</th>
                <th>Since</th>
              </tr>
            </thead>
            <tbody>
              {blocked.map((row) => (
                <tr key={row.first}>
                  <td>
                    <a href={href(['jobs', row.first])}>{row.first}</a>
                  </td>
                  <td>
                    <Text text={row.tenant} most={64} />
                  </td>
                  <td class="right number">{count(row.jobs)}</td>
                  <td class="number">
                    {row.cpu_m / 1000} cpu, {bytes(row.memory_bytes)}
                    {row.gpus > 0 && `, ${row.gpus} gpu`}
                  </td>
                  <td>
                    <Ago time={row.since} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
    </>
  );
}
