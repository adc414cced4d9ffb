// A real server and a real browser for the tests of the page.

import { spawn, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const program = process.env.ORLOP_BIN;
const browsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
export const browserPath = browsers.find((path) => existsSync(path));

/** Why these tests cannot run here; empty = they can. */
export function missing() {
  if (!program) return 'skipped: ORLOP_BIN names no program';
  if (!browserPath) return 'skipped: no Chromium is installed';
  return '';
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Fleets that have not ended: a script that fails takes them with it. */
const running = new Set();
process.once('exit', () => {
  for (const fleet of running) fleet.discard();
});

/** A fleet on this machine, of which nothing is left afterwards. */
export class Fleet {
  static async start() {
    const fleet = new Fleet();
    fleet.home = mkdtempSync(join(tmpdir(), 'orlop-page-'));
    fleet.environment = { PATH: process.env.PATH, HOME: fleet.home, ORLOP_HOME: fleet.home, XDG_RUNTIME_DIR: fleet.home, LC_ALL: 'C.UTF-8' };
    fleet.ports = [await freePort(), await freePort()];
    fleet.url = `http://127.0.0.1:${fleet.ports[0]}`;
    running.add(fleet);
    await fleet.up();
    return fleet;
  }

  async up() {
    const [rest, grpc] = this.ports;
    const options = ['up', '--data', join(this.home, 'data'), '--listen', `127.0.0.1:${rest}`, '--grpc-listen', `127.0.0.1:${grpc}`];
    this.process = spawn(program, options, { env: this.environment, stdio: ['ignore', 'pipe', 'pipe'] });
    this.ended = new Promise((done) => this.process.once('exit', done));
    let said = '';
    this.process.stderr.on('data', (bytes) => (said += bytes));
    await new Promise((done, fail) => {
      this.process.stdout.on('data', (bytes) => {
        said += bytes;
        if (said.includes('is up')) done();
      });
      this.process.once('exit', () => fail(new Error(`the server ended: ${said}`)));
    });
  }

  /** Runs the program against this fleet, and gives what it prints. */
  run(...words) {
    return execFileSync(program, words, { env: { ...this.environment, ORLOP_SERVER: this.url }, encoding: 'utf8' });
  }

  link(...words) {
    return this.run('ui', '--no-open', ...words).trim();
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }

  /** Ends it without waiting. */
  discard() {
    this.process?.kill('SIGKILL');
    rmSync(this.home, { recursive: true, force: true, maxRetries: 3 });
  }

  async end() {
    await this.kill();
    running.delete(this);
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** A browser whose pages may reach nothing but this machine. */
export async function openBrowser() {
  return chromium.launch({
    executablePath: browserPath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** A page that notes what it must not do: requests elsewhere, violations of its policy, errors of its script. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy|Trusted/.test(message.text())) faults.push(`policy: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) faults.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  return { page, context, faults };
}
