// Workers: what each has, holds and does.

import type { Worker } from '../api/types';
import { href } from '../ui/address';
import { Do } from '../ui/dialog';
import { Ago, Bar, Command, Empty, Failed, Loading, State, Text } from '../ui/parts';
import { useTopic } from '../ui/use';
import { bytes, percent } from '../text/format';
import { mergeRows } from './overview';

export function Workers({ chosen }: { chosen: string | null }) {
  const { value, problem } = useTopic<{ rows: Worker[] }>('workers', mergeRows);
  if (problem) return <Failed problem={problem} />;
  if (!value) return <Loading />;
  const rows = chosen ? value.rows.filter((row) => row.id === chosen) : value.rows;
  return (
    <>
      <div class="title">
        <h1>{chosen ? <Text text={chosen} /> : 'Workers'}</h1>
        <Command words={['orlop', 'workers']} />
      </div>
      {chosen && (
        <p>
          <a href={href(['workers'])}>All workers</a>
        </p>
      )}
      {rows.length === 0 ? (
        <Empty command={['orlop', 'workers', 'token', 'create']}>{chosen ? 'There is no such worker now.' : 'No worker has joined yet.'}</Empty>
      ) : (
        <ul class="workers">
          {rows.map((row) => (
            <Card key={row.id} row={row} />
          ))}
        </ul>
      )}
    </>
  );
}

function Card({ row }: { row: Worker }) {
  const { capabilities, report } = row;
  const failing = report?.health.filter((check) => !check.ok) ?? [];
  const gpus = capabilities.gpus.reduce((sum, gpu) => sum + (gpu.count ?? 1), 0);
  const path = `/workers/${encodeURIComponent(row.id)}`;
  const admission = row.cordoned
    ? { verb: 'uncordon', title: 'Uncordon', says: `${row.id} takes new work again.` }
    : { verb: 'cordon', title: 'Cordon', says: `${row.id} gets no new work; what runs on it goes on.` };
  return (
    <li class="card">
      <h2>
        <a href={href(['workers', row.id])}>
          <Text text={row.id} most={128} />
        </a>{' '}
        <State state={row.draining ? 'Draining' : row.state} />
        {row.cordoned && <span class="tag">cordoned</span>}
        {!row.connected && <span class="tag tone-bad">not connected</span>}
      </h2>
      <dl class="fill">
        <dt>cpu</dt>
        <dd>
          <Bar share={row.cpu_allocated} label={`${percent(row.cpu_allocated)} of ${capabilities.cpu_m / 1000} cores are allocated`} />
          <span class="number">
            {percent(row.cpu_allocated)} of {capabilities.cpu_m / 1000}
          </span>
        </dd>
        <dt>memory</dt>
        <dd>
          <Bar share={row.memory_allocated} label={`${percent(row.memory_allocated)} of ${bytes(capabilities.memory_bytes)} is allocated`} />
          <span class="number">
            {percent(row.memory_allocated)} of {bytes(capabilities.memory_bytes)}
          </span>
        </dd>
      </dl>
      <p class="faint">
        {row.attempts} {row.attempts === 1 ? 'attempt' : 'attempts'}
        {gpus > 0 && ` · ${gpus} gpu`} · {capabilities.runtimes.join(', ')} · {row.agent_version} · since <Ago time={row.since} />
        {report && ` · cpu used ${Math.round(report.cpu_percent)} %, load ${report.load.toFixed(1)}`}
      </p>
      {(row.reason || failing.length > 0) && (
        <p class="tone-bad">
          <Text text={[row.reason, ...failing.map((check) => `${check.check} fails`)].filter(Boolean).join('; ')} most={512} />
        </p>
      )}
      <p class="actions">
        <Do
          label={admission.title}
          action={{
            ...admission,
            role: 'operator',
            method: 'POST',
            path: `${path}/${admission.verb}`,
            command: ['orlop', 'workers', admission.verb, row.id],
          }}
        />
        {row.draining ? (
          <Do
            label="Undrain"
            action={{
              title: 'Undrain',
              says: `The drain of ${row.id} is withdrawn: it takes new work again.`,
              role: 'operator',
              method: 'POST',
              path: `${path}/undrain`,
              command: ['orlop', 'drain', row.id, '--undo'],
            }}
          />
        ) : (
          <Do
            label="Drain"
            action={{
              title: 'Drain',
              says: `${row.id} finishes its ${row.attempts} attempts and leaves the fleet.`,
              role: 'operator',
              method: 'POST',
              path: `${path}/drain`,
              reason: 'optional',
              command: ['orlop', 'drain', row.id],
              danger: true,
            }}
          />
        )}
      </p>
    </li>
  );
}
