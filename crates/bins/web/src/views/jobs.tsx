// Jobs as a list, the newest first.

import type { Job } from '../api/types';
import { href } from '../ui/address';
import { Filter, filter } from '../ui/filter';
import { Ago, Command, Empty, Failed, Loading, State, Text, Took } from '../ui/parts';
import { useRows } from '../ui/use';
import { count } from '../text/format';

const STATES = ['Queued', 'Running', 'Completed', 'Failed', 'TimedOut', 'Cancelled'];

export function Jobs() {
  const { states, text } = filter();
  const passes = (row: Job) =>
    (states.length === 0 || states.includes(row.state)) && (!text || (row.name ?? '').includes(text) || row.id.includes(text));
  const query = states.length ? `&state=${states.map(encodeURIComponent).join(',')}` : '';
  const { value, problem, again, more } = useRows<Job>('jobs', `/jobs?limit=200&details=true${query}`, passes);
  if (problem && !value) return <Failed problem={problem} retry={again} />;
  return (
    <>
      <div class="title">
        <h1>Jobs</h1>
        <Command words={['orlop', 'jobs', ...states.flatMap((state) => ['--state', state])]} />
      </div>
      <Filter view="jobs" states={STATES} />
      {!value ? (
        <Loading />
      ) : value.length === 0 ? (
        <Empty command={['orlop', 'submit', '--', 'echo', 'hello']}>
          {text || states.length ? 'No job passes these filters.' : 'No job was submitted yet.'}
        </Empty>
      ) : (
        <table class="cards-when-narrow">
          <thead>
            <tr>
              <th>State</th>
              <th>Job</th>
              <th>Runs</th>
              <th class="right">Exit</th>
              <th>Submitted</th>
              <th class="right">Ran</th>
              <th>Tenant</th>
              <th>Reason</th>
            </tr>
          </thead>
          <tbody>
            {value.slice(0, 200).map((row) => (
              <tr key={row.id}>
                <td>
                  <State state={row.state} />
                </td>
                <td>
                  <a href={href(['jobs', row.id])}>
                    <Text text={row.name ?? row.id} most={256} />
                  </a>
                  {row.count > 1 && <span class="faint"> × {count(row.count)}</span>}
                </td>
                <td>
                  <code>
                    <Text text={row.program ?? ''} most={64} />
                  </code>
                </td>
                <td class="right number">{row.exit_code}</td>
                <td>
                  <Ago time={row.submitted_at} />
                </td>
                <td class="right">
                  <Took from={row.started_at} to={row.finished_at} />
                </td>
                <td>
                  <Text text={row.tenant} most={64} />
                </td>
                <td class="message">
                  <Text text={row.reason ?? ''} most={128} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {more && <p class="faint">There are older ones: filter, or list them with the command above.</p>}
    </>
  );
}
