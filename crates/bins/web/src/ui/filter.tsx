// Filters of a list: states and a text, both in the address.

import { at, go, href } from './address';
import { look } from '../text/state';

/** The states and the text that the address asks for. */
export function filter(): { states: string[]; text: string } {
  const query = at.value.query;
  return { states: (query.get('state') ?? '').split(',').filter(Boolean), text: query.get('q') ?? '' };
}

export function Filter({ view, states }: { view: string; states: string[] }) {
  const chosen = filter();
  const set = (next: { states?: string[]; text?: string }) => {
    const all = { ...chosen, ...next };
    go(href([view], { state: all.states.join(','), q: all.text }), true);
  };
  const toggle = (state: string) => {
    const has = chosen.states.includes(state);
    set({ states: has ? chosen.states.filter((one) => one !== state) : [...chosen.states, state] });
  };
  return (
    <div class="filter" role="search">
      <input
        type="search"
        placeholder="Filter by name  /"
        aria-label="Filter by name"
        value={chosen.text}
        onInput={(event) => set({ text: event.currentTarget.value })}
      />
      {states.map((state) => (
        <button key={state} type="button" class="chip" aria-pressed={chosen.states.includes(state)} onClick={() => toggle(state)}>
          <span aria-hidden="true">{look(state).symbol}</span> {look(state).word}
        </button>
      ))}
    </div>
  );
}
