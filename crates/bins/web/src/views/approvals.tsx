// Steps that wait for a decision, the oldest first.

import type { Approval } from '../api/types';
import { href } from '../ui/address';
import { Do, type Action } from '../ui/dialog';
import { Ago, Empty, Failed, Loading, Text } from '../ui/parts';
import { useTopic } from '../ui/use';
import { mergeRows } from './overview';

/** The actions of a step that waits for a decision. */
export function decisions(flow: string, name: string, step: string, message: string): [Action, Action] {
  const path = `/flows/${encodeURIComponent(flow)}/steps/${encodeURIComponent(step)}`;
  const says = (
    <>
      <p>
        <Text text={`${name} / ${step}`} />
      </p>
      <p class="message">
        <Text text={message} />
      </p>
    </>
  );
  const command = (verb: string) => ['orlop', 'flow', verb, name, step, '--target', 'fleet'];
  return [
    { title: 'Approve', says, role: 'submitter', method: 'POST', path: `${path}/approve`, reason: 'optional', command: command('approve') },
    { title: 'Reject', says, role: 'submitter', method: 'POST', path: `${path}/reject`, reason: 'required', command: command('reject'), danger: true },
  ];
}

export function Approvals() {
  const { value, problem } = useTopic<{ rows: Approval[] }>('approvals', mergeRows);
  if (problem) return <Failed problem={problem} />;
  if (!value) return <Loading />;
  const rows = [...value.rows].sort((a, b) => (a.since ?? '').localeCompare(b.since ?? ''));
  return (
    <>
      <h1>Approvals</h1>
      {rows.length === 0 ? (
        <Empty>No step waits for a decision. A step of the type Manual asks for one.</Empty>
      ) : (
        <ul class="workers">
          {rows.map((row) => {
            const [approve, reject] = decisions(row.flow, row.flow_name, row.step, row.message);
            return (
              <li key={row.id} class="card tone-ask">
                <h2>
                  <a href={href(['flows', row.flow])}>
                    <Text text={row.flow_name} most={128} />
                  </a>{' '}
                  / <Text text={row.step} most={128} />
                </h2>
                <p class="message">
                  <Text text={row.message} />
                </p>
                <p class="faint">
                  asked <Ago time={row.since} /> · tenant <Text text={row.tenant} most={64} />
                </p>
                <p class="actions">
                  <Do action={approve} label="Approve" />
                  <Do action={reject} label="Reject" />
                </p>
              </li>
            );
          })}
        </ul>
      )}
    </>
  );
}
