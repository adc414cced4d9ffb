// The page: its head, its views by address, and who may see them.

import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { at, follow, href } from './ui/address';
import { Dialog } from './ui/dialog';
import { Failed, Loading, Text, useNow } from './ui/parts';
import { begin, known, server, session, signOut, trouble } from './ui/session';
import { build, freshness, heard } from './live/stream';
import { clock, span } from './text/format';
import { SignIn } from './views/sign-in';
import { Overview } from './views/overview';
import { Flows } from './views/flows';
import { Jobs } from './views/jobs';
import { Workers } from './views/workers';
import { Approvals } from './views/approvals';

const VIEWS = [
  ['', 'Overview', 'o'],
  ['flows', 'Flows', 'f'],
  ['jobs', 'Jobs', 'j'],
  ['workers', 'Workers', 'w'],
  ['approvals', 'Approvals', 'p'],
] as const;

/** A view that is loaded when it is first shown. */
function Later({ load }: { load: () => Promise<{ View: (props: { id: string }) => preact.JSX.Element | null }> ; }) {
  const id = at.value.parts[1] ?? '';
  const [state, set] = useState<{ View?: (props: { id: string }) => preact.JSX.Element | null; problem?: unknown }>({});
  useEffect(() => {
    load().then(
      ({ View }) => set({ View }),
      (problem: unknown) => set({ problem }),
    );
  }, []);
  if (state.problem) return <Failed problem={state.problem} />;
  const View = state.View;
  return View ? <View key={id} id={id} /> : <Loading />;
}

const flow = () => import('./views/flow');
const job = () => import('./views/job');
const submit = () => import('./views/submit');

function View() {
  const [name = '', id] = at.value.parts;
  switch (name) {
    case '':
      return <Overview />;
    case 'flows':
      return id ? <Later key="flow" load={flow} /> : <Flows />;
    case 'submit':
      return <Later key="submit" load={submit} />;
    case 'jobs':
      return id ? <Later key="job" load={job} /> : <Jobs />;
    case 'workers':
      return <Workers chosen={id ?? null} />;
    case 'approvals':
      return <Approvals />;
    default:
      return <Failed problem={new Error(`there is no view “${name}”`)} />;
  }
}

function Fresh() {
  const now = useNow();
  const state = freshness.value;
  const own = now - heard.value;
  if (state.state === 'live') {
    return (
      <span class="fresh tone-good" title={`last heard ${span(own)} ago`}>
        ● live
      </span>
    );
  }
  if (state.state === 'offline') {
    return (
      <span class="fresh tone-bad" role="status">
        ○ offline since {clock(state.since, false)}, showing {clock(heard.value, false)}
      </span>
    );
  }
  return <span class="fresh faint">○ connecting</span>;
}

function Theme() {
  const [theme, set] = useState(localStorage.getItem('orlop-theme') ?? 'auto');
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    localStorage.setItem('orlop-theme', theme);
  }, [theme]);
  const next = theme === 'auto' ? 'light' : theme === 'light' ? 'dark' : 'auto';
  return (
    <button type="button" class="quiet" onClick={() => set(next)} title={`Theme: ${theme}; switch to ${next}`}>
      ◐<span class="visually-hidden">Theme: {theme}</span>
    </button>
  );
}

function Head() {
  const own = session.value;
  const [name = ''] = at.value.parts;
  return (
    <header>
      <div class="head">
        <a class="brand" href={href([])}>
          Orlop
        </a>
        <span class="where">
          <Text text={server.value?.server.name ?? ''} most={64} />
        </span>
        <span class="spacer" />
        {own && <Fresh />}
        {own && (
          <span class="who" title={`tenants: ${own.tenants.join(', ')}`}>
            {own.caller} <b>{own.role}</b>
          </span>
        )}
        <Theme />
        {own && (
          <button type="button" class="quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </div>
      {own && (
        <nav aria-label="Views">
          {VIEWS.map(([path, title]) => (
            <a key={path} href={href(path ? [path] : [])} aria-current={path === name ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
      )}
    </header>
  );
}

/** Offers the page that belongs to the server, once that is another one. */
function Reload() {
  const own = document.querySelector('meta[name="orlop-build"]')?.getAttribute('content');
  if (!build.value || build.value === own) return null;
  return (
    <p class="notice" role="status">
      The server has a newer page. <button type="button" onClick={() => location.reload()}>Reload</button>
    </p>
  );
}

/** `g` and a letter go to a view; `?` says so. */
function useKeys(): [boolean, (shown: boolean) => void] {
  const [help, show] = useState(false);
  useEffect(() => {
    let going = false;
    const key = (event: KeyboardEvent) => {
      const field = (event.target as Element).closest('input, textarea, select, dialog');
      if (field || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem('orlop-keys') === 'off') return;
      const view = VIEWS.find(([, , letter]) => letter === event.key);
      if (going && view) document.querySelector<HTMLAnchorElement>(`nav a[href="${CSS.escape(href(view[0] ? [view[0]] : []))}"]`)?.click();
      going = event.key === 'g';
      if (event.key === '?') show(true);
      if (event.key === 'Escape') show(false);
      if (event.key === '/') {
        const filter = document.querySelector<HTMLInputElement>('input[type="search"]');
        if (filter) {
          event.preventDefault();
          filter.focus();
        }
      }
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  return [help, show];
}

function Help({ close }: { close: () => void }) {
  return (
    <section class="help" aria-label="Keys">
      <h2>Keys</h2>
      <dl>
        {VIEWS.map(([path, title, letter]) => (
          <div key={path}>
            <dt>
              <kbd>g</kbd> <kbd>{letter}</kbd>
            </dt>
            <dd>{title}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>filter of this list</dd>
        </div>
      </dl>
      <button type="button" onClick={close}>
        Close
      </button>
    </section>
  );
}

function App() {
  const [help, show] = useKeys();
  const signedIn = session.value !== null;
  useEffect(() => {
    const [view, id] = at.value.parts;
    const title = VIEWS.find(([path]) => path === (view ?? ''))?.[1] ?? 'Orlop';
    document.title = id ? `${id} · Orlop` : `${title} · Orlop`;
  }, [at.value]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Head />
      <Reload />
      <main id="main" tabIndex={-1}>
        {!known.value ? <Loading /> : signedIn ? <View /> : <SignIn />}
        {trouble.value !== null && known.value && !signedIn && <Failed problem={trouble.value} />}
      </main>
      {help && <Help close={() => show(false)} />}
      <Dialog />
    </>
  );
}

follow();
render(<App />, document.body);
void begin();
