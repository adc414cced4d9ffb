// A dialog that asks before something is done, shows its command, and stays when it is refused.

import type { ComponentChildren } from 'preact';
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { change, Problem } from '../api/client';
import { session } from './session';
import type { Role } from '../api/types';
import { Command, Text } from './parts';

/** Something that can be done. */
export interface Action {
  title: string;
  /** What happens then. */
  says: ComponentChildren;
  role: Role;
  method: 'POST' | 'DELETE';
  path: string;
  command: string[];
  /** Asks for a reason; `required` where one must be given. */
  reason?: 'optional' | 'required';
  /** The text that has to be typed first. */
  types?: string;
  body?: Record<string, unknown>;
  danger?: boolean;
  /** Called with what the server answered. */
  done?: (answer: unknown) => void;
}

const asked = signal<Action | null>(null);

/** Opens the dialog of an action. */
export function ask(action: Action): void {
  asked.value = action;
}

const LEVELS: Role[] = ['viewer', 'submitter', 'operator', 'admin'];

/** Why somebody may not do what needs a role; none = it is allowed. */
export function refusal(role: Role): string | null {
  const own = session.value?.role;
  if (!own) return 'sign in first';
  return LEVELS.indexOf(own) >= LEVELS.indexOf(role) ? null : `needs the role ${role}; you are ${own}`;
}

/** A button that opens a dialog, or says why it cannot. */
export function Do({ action, label, why }: { action: Action; label: string; why?: string | null }) {
  const not = why ?? refusal(action.role);
  return (
    <button type="button" disabled={!!not} title={not ?? action.title} onClick={() => ask(action)} class={action.danger ? 'danger' : ''}>
      {label}
    </button>
  );
}

/** Where dialogs stand. */
export function Dialog() {
  const action = asked.value;
  return action ? <Open key={`${action.method} ${action.path}`} action={action} /> : null;
}

function Open({ action }: { action: Action }) {
  const element = useRef<HTMLDialogElement>(null);
  const key = useRef(crypto.randomUUID());
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  useEffect(() => element.current?.showModal(), []);
  const close = () => {
    asked.value = null;
  };
  const act = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    const body = { ...action.body, ...(action.reason && reason ? { reason } : {}) };
    try {
      const answer = await change(action.method, action.path, body, key.current);
      // Once it is closed, what follows is not wanted any more.
      if (asked.value !== action) return;
      action.done?.(answer);
      close();
    } catch (caught) {
      setProblem(caught);
      setBusy(false);
    }
  };
  const ready = (action.reason !== 'required' || reason.trim()) && (!action.types || typed === action.types);
  const command = reason && action.reason ? [...action.command, '--reason', reason] : action.command;
  return (
    <dialog ref={element} onClose={close} aria-labelledby="dialog-title">
      <form onSubmit={act}>
        <h2 id="dialog-title">{action.title}</h2>
        <div class="says">{action.says}</div>
        {action.reason && (
          <label>
            Reason{action.reason === 'required' ? '' : ' (optional)'}
            <textarea rows={3} maxLength={1024} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
          </label>
        )}
        {action.types && (
          <label>
            <span>
              Type <Text text={action.types} /> to go on
            </span>
            <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" />
          </label>
        )}
        {problem !== null && <Refused problem={problem} />}
        <Command words={command} />
        <div class="buttons">
          <button type="button" onClick={close}>
            Close
          </button>
          <button type="submit" class={action.danger ? 'danger' : 'primary'} disabled={!ready || busy}>
            {busy ? 'asked…' : action.title}
          </button>
        </div>
      </form>
    </dialog>
  );
}

function Refused({ problem }: { problem: unknown }) {
  const known = problem instanceof Problem ? problem : null;
  const unsure = !known || known.status === 0 || known.status >= 500;
  return (
    <div class="refused" role="alert">
      <p>
        <Text text={problem instanceof Error ? problem.message : String(problem)} />
      </p>
      {known?.body.errors?.map((error) => (
        <p key={error.path}>
          <code>{error.path}</code> <Text text={error.message} />
        </p>
      ))}
      {unsure && <p>It is not known whether this took effect. Sent again it takes effect once.</p>}
      {known?.body.instance && <p class="faint">request {known.body.instance}</p>}
    </div>
  );
}
