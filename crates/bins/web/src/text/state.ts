// States as symbol, word and colour; never by colour alone.

export type Tone = 'idle' | 'wait' | 'run' | 'ask' | 'good' | 'bad' | 'off';

interface Look {
  symbol: string;
  word: string;
  tone: Tone;
}

const LOOKS: Record<string, Look> = {
  Pending: { symbol: '·', word: 'not begun', tone: 'idle' },
  Waiting: { symbol: '◌', word: 'waiting', tone: 'wait' },
  Queued: { symbol: '◌', word: 'waiting', tone: 'wait' },
  Assigned: { symbol: '◔', word: 'staging', tone: 'wait' },
  Running: { symbol: '▶', word: 'running', tone: 'run' },
  Retrying: { symbol: '↻', word: 'retry later', tone: 'wait' },
  Backoff: { symbol: '↻', word: 'retry later', tone: 'wait' },
  PendingApproval: { symbol: '⏸', word: 'decide', tone: 'ask' },
  Paused: { symbol: '⏸', word: 'decide', tone: 'ask' },
  Suspended: { symbol: '‖', word: 'suspended', tone: 'off' },
  Succeeded: { symbol: '✔', word: 'succeeded', tone: 'good' },
  Completed: { symbol: '✔', word: 'succeeded', tone: 'good' },
  Failed: { symbol: '✖', word: 'failed', tone: 'bad' },
  TimedOut: { symbol: '✖', word: 'timed out', tone: 'bad' },
  Skipped: { symbol: '–', word: 'skipped', tone: 'off' },
  Cancelled: { symbol: '■', word: 'cancelled', tone: 'off' },
  Cancelling: { symbol: '■', word: 'ending', tone: 'off' },
  Lost: { symbol: '?', word: 'lost', tone: 'bad' },
  Available: { symbol: '▶', word: 'available', tone: 'good' },
  Registering: { symbol: '◔', word: 'registering', tone: 'wait' },
  Creating: { symbol: '◔', word: 'creating', tone: 'wait' },
  Draining: { symbol: '‖', word: 'draining', tone: 'ask' },
  Unhealthy: { symbol: '✖', word: 'unhealthy', tone: 'bad' },
  Terminated: { symbol: '■', word: 'left', tone: 'off' },
};

/** How a state is shown. */
export function look(state: string): Look {
  return LOOKS[state] ?? { symbol: '?', word: state || 'not known', tone: 'off' };
}
