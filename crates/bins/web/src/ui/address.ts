// The address says what is seen: view, object, tab, filters.

import { signal } from '@preact/signals';
import { base } from '../api/client';

export interface Address {
  /** Parts of the path below the base. */
  parts: string[];
  query: URLSearchParams;
  hash: string;
}

function read(): Address {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : '';
  return {
    parts: path.split('/').filter(Boolean).map(decodeURIComponent),
    query: new URLSearchParams(location.search),
    hash: location.hash.slice(1),
  };
}

export const at = signal<Address>(read());

/** The address of a view. */
export function href(parts: string[], query?: Record<string, string>): string {
  const search = query ? new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString() : '';
  return base + parts.map(encodeURIComponent).join('/') + (search ? `?${search}` : '');
}

/** Goes to an address of the page. */
export function go(url: string, replace = false): void {
  if (replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  at.value = read();
}

/** Keeps clicks on links of the page in the page. */
export function follow(): void {
  addEventListener('popstate', () => {
    at.value = read();
  });
  document.addEventListener('click', (event) => {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    const link = (event.target as Element | null)?.closest('a');
    if (!plain || event.defaultPrevented || !link || link.target || link.origin !== location.origin) return;
    if (!link.pathname.startsWith(base)) return;
    event.preventDefault();
    go(link.href);
    document.querySelector('main')?.focus();
  });
}
