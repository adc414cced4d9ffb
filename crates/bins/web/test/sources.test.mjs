// What neither the sources nor the built page may hold.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const web = join(dirname(fileURLToPath(import.meta.url)), '..');

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

const SCRIPTS = /\.(tsx?|js)$/;
const FORBIDDEN = [
  /innerHTML/,
  /outerHTML/,
  /insertAdjacentHTML/,
  /dangerouslySetInnerHTML/,
  /\beval\(/,
  /new Function\(/,
  /javascript:/,
  /document\.write/,
  /<iframe/,
  /new Worker\(/,
  /serviceWorker/,
  /setTimeout\(['"`]/,
];

test('neither sources nor the page turn text into markup or code', () => {
  const found = [];
  for (const path of [...files(join(web, 'src')), ...files(join(web, 'dist'))].filter((path) => SCRIPTS.test(path))) {
    const text = readFileSync(path, 'utf8');
    for (const pattern of FORBIDDEN) if (pattern.test(text)) found.push(`${path}: ${pattern}`);
  }
  assert.deepEqual(found, []);
});

test('the document has no script and no style of its own', () => {
  const text = readFileSync(join(web, 'dist/index.html'), 'utf8');
  assert.ok(!/<style|style=|<script>| on[a-z]+=/.test(text), text);
  for (const script of text.match(/<script[^>]*>/g)) assert.match(script, /src="__BASE__/);
});

test('the page is small', () => {
  const dist = join(web, 'dist');
  const packed = (name) => gzipSync(readFileSync(join(dist, name)), { level: 6 }).length;
  const all = readdirSync(dist).filter((name) => name !== 'dist.inc');
  const sum = all.reduce((bytes, name) => bytes + packed(name), 0);
  assert.ok(sum <= 250 * 1024, `all of it is ${sum} bytes gzipped`);
  const text = readFileSync(join(dist, 'index.html'), 'utf8');
  const named = all.filter((name) => text.includes(name));
  const parts = new Set(named.filter((name) => name.endsWith('.js')));
  for (const name of parts) {
    // Imports that are not deferred come with the first load.
    for (const [, part] of readFileSync(join(dist, name), 'utf8').matchAll(/from ?"\.\/([^"]+)"|import"\.\/([^"]+)"/g)) if (part) parts.add(part);
  }
  const first = new Set(['index.html', ...named, ...parts]);
  const bytes = [...first].reduce((total, name) => total + packed(name), 0);
  assert.ok(first.size <= 6, `the first load asks for ${[...first]}`);
  assert.ok(bytes <= 100 * 1024, `the first load is ${bytes} bytes gzipped`);
});

test('every bundled package has a licence that is allowed', () => {
  const name = readdirSync(join(web, 'dist')).find((one) => one.startsWith('licences-'));
  const text = readFileSync(join(web, 'dist', name), 'utf8');
  const named = [...text.matchAll(/^(@?[a-z][a-z0-9/-]*) [0-9.]+ \(([^)]+)\)$/gm)];
  assert.ok(named.length >= 3, text);
  for (const [, , licence] of named) assert.ok(['MIT', 'Apache-2.0', 'ISC', 'BSD-3-Clause', '0BSD'].includes(licence), licence);
});
