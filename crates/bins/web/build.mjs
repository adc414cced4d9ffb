// Builds the page: `node build.mjs` writes `dist/`. The same sources give the same bytes.

import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, 'dist');
const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase();

/** Preact can set markup as text. The page never does, so that is taken out: what is not there cannot be misused. */
const noMarkup = {
  name: 'no-markup',
  setup(build) {
    build.onLoad({ filter: /preact\/dist\/preact\.(module\.js|mjs)$/ }, (args) => {
      const source = readFileSync(args.path, 'utf8');
      const contents = source.replaceAll('dangerouslySetInnerHTML', 'markupIsNotSupported').replaceAll('innerHTML', 'markupIsNotSupported');
      return { contents, loader: 'js' };
    });
  },
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.tsx', style: 'src/style.css' },
  bundle: true,
  splitting: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  minify: true,
  charset: 'utf8',
  legalComments: 'none',
  entryNames: '[name]-[hash]',
  chunkNames: 'part-[hash]',
  outdir: out,
  metafile: true,
  plugins: [noMarkup],
});
const outputs = Object.entries(result.metafile.outputs);
const entry = (end) => basename(outputs.find(([path, made]) => made.entryPoint?.endsWith(end))[0]);
const [script, style] = [entry('main.tsx'), entry('style.css')];

const icon = readFileSync(join(here, 'src/icon.svg'));
const iconName = `icon-${hash(icon)}.svg`;
writeFileSync(join(out, iconName), icon);

// The licence of every package that is in the page.
const packages = new Set(
  Object.keys(result.metafile.inputs)
    .map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
    .filter(Boolean),
);
const licences = [...packages].sort().map((name) => {
  const folder = join(here, 'node_modules', name);
  const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
});
const notice = Buffer.from(licences.join(`\n${'-'.repeat(72)}\n\n`));
const noticeName = `licences-${hash(notice)}.txt`;
writeFileSync(join(out, noticeName), notice);

const files = () => readdirSync(out).sort();
const all = createHash('sha256');
for (const name of files()) all.update(name).update(readFileSync(join(out, name)));
const id = all.digest('hex').slice(0, 12);
writeFileSync(
  join(out, 'index.html'),
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="orlop-base" content="__BASE__">
<meta name="orlop-build" content="${id}">
<title>Orlop</title>
<link rel="icon" href="__BASE__${iconName}">
<link rel="stylesheet" href="__BASE__${style}">
<script type="module" src="__BASE__${script}"></script>
</head>
<body><noscript>This page needs JavaScript.</noscript></body>
</html>
`,
);
const rows = files()
  .map((name) => `        ("${name}", include_bytes!("${name}")),\n`)
  .join('');
writeFileSync(join(out, 'dist.inc'), `Dist {\n    build: "${id}",\n    files: &[\n${rows}    ],\n}\n`);
