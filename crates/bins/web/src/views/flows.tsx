// Flows as a list.

import type { Flow } from '../api/types';
import { href } from '../ui/address';
import { Filter, filter } from '../ui/filter';
import { Ago, Command, Empty, Failed, Loading, Progress, State, Text, Took } from '../ui/parts';
import { useRows } from '../ui/use';

const STATES = ['Running', 'Paused', 'Suspended', 'Succeeded', 'Failed'];

export function Flows() {
  const { states, text } = filter();
  const passes = (row: Flow) => (states.length === 0 || states.includes(row.phase)) && row.name.includes(text);
  const { value, problem, again, more } = useRows<Flow>('flows', '/flows?limit=500', passes);
  if (problem && !value) return <Failed problem={problem} retry={again} />;
  const rows = value ? [...value].sort((a, b) => b.created_at.localeCompare(a.created_at)) : [];
  return (
    <>
      <div class="title">
        <h1>Flows</h1>
        <a class="button" href={href(['submit'])}>
          Submit a flow
        </a>
        <Command words={['orlop', 'flow', 'list', '--target', 'fleet']} />
      </div>
      <Filter view="flows" states={STATES} />
      {!value ? (
        <Loading />
      ) : rows.length === 0 ? (
        <Empty command={['orlop', 'run', '--target', 'fleet', 'examples/flows/hello.yaml']}>
          {text || states.length ? 'No flow passes these filters.' : 'No flow was submitted yet.'}
        </Empty>
      ) : (
        <table class="cards-when-narrow">
          <thead>
            <tr>
              <th>State</th>
              <th>Name</th>
              <th>Steps</th>
              <th>Submitted</th>
              <th class="right">Took</th>
              <th>Tenant</th>
              <th>Message</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, 200).map((row) => (
              <tr key={row.id}>
                <td>
                  <State state={row.state === 'Cancelled' ? 'Cancelled' : row.phase} />
                </td>
                <td>
                  <a href={href(['flows', row.id])}>
                    <Text text={row.name} most={256} />
                  </a>
                </td>
                <td>
                  <Progress progress={row.progress} phase={row.phase} />
                </td>
                <td>
                  <Ago time={row.created_at} />
                </td>
                <td class="right">
                  <Took from={row.started_at} to={row.ended_at} />
                </td>
                <td>
                  <Text text={row.tenant} most={64} />
                </td>
                <td class="message">
                  <Text text={row.message ?? ''} most={256} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {(more || rows.length > 200) && <p class="faint">There are more: filter them, or list them with the command above.</p>}
    </>
  );
}
