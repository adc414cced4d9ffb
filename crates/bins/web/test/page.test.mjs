// The page of a real server in a real browser.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Fleet, missing, openBrowser, openPage } from './drive.mjs';

const why = missing();
if (why) console.log(why);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const FLOW = `apiVersion: workflow.kube-zen.io/v1alpha1
kind: JobFlow
metadata: { name: release }
spec:
  steps:
    - { name: ask, type: Manual, message: "Release it?" }
    - { name: again, type: Manual, dependencies: [ask], message: "Sure?" }
    - { name: other, type: Manual, dependencies: [ask], message: "And this?" }
`;

/** Texts that act where they are taken for something else. */
const HOSTILE = [
  '<img src=x onerror=window.hit=1>',
  '<script>window.hit=1</script>',
  '"><svg onload=window.hit=1>',
  "'-alert(1)-'",
  'javascript:window.hit=1',
  '{{constructor.constructor("window.hit=1")()}}',
  '\u202etxt.exe',
  '\u001b]8;;http://evil.example\u0007link\u001b]8;;\u0007',
  '\u001b[31mred\u001b[0m',
  '__proto__',
  '</td></tr></table>',
  '&lt;b&gt;',
];

let fleet;
let browser;

before(async () => {
  if (why) return;
  fleet = await Fleet.start();
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await fleet?.end();
});

const on = (name, run) => test(name, { skip: why || false, timeout: 60_000 }, run);

/** A page that is signed in. */
async function signedIn(path = '', options = {}) {
  const opened = await openPage(browser, fleet.link(), options);
  await opened.page.waitForSelector('nav');
  if (path) await opened.page.goto(`${fleet.url}/ui/${path}`);
  return opened;
}

let flows = 0;

/** Submits a flow, and gives what is said of it. */
function submit() {
  flows += 1;
  const file = join(fleet.home, 'flow.yaml');
  writeFileSync(file, FLOW);
  return JSON.parse(fleet.run('flow', 'submit', file, '--name', `release-${flows}`, '--target', 'fleet', '-o', 'json'));
}

on('a link signs in once, and stands nowhere afterwards', async () => {
  const link = fleet.link();
  const { page, context, faults } = await openPage(browser, link);
  await page.waitForSelector('nav');
  assert.ok(!page.url().includes('k='), page.url());
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage }) + document.cookie);
  assert.ok(!kept.includes(link.split('#k=')[1]), kept);
  const second = await openPage(browser, link);
  await second.page.waitForSelector('.sign-in');
  assert.match(await second.page.textContent('.failed'), /not valid/);
  assert.deepEqual([...faults, ...second.faults], []);
  await context.close();
  await second.context.close();
});

on('a step that asks is decided in the page, and the graph shows it without a reload', async () => {
  const flow = submit();
  const { page, context, faults } = await signedIn(`flows/${flow.id ?? flow[0].id}/steps`);
  const row = (name) => page.locator('tbody tr', { has: page.locator(`button:has-text("${name}")`) });
  await row('ask').locator('text=decide').waitFor();
  await row('ask').locator('button').click();
  await page.click('.panel button:has-text("Approve")');
  await page.fill('dialog textarea', 'looks good');
  await page.click('dialog button[type=submit]');
  await row('ask').locator('text=succeeded').waitFor();
  await row('again').locator('text=decide').waitFor();
  await page.click('.tabs >> text=Timeline');
  await page.locator('.timeline-row.chosen:has-text("ask"):has-text("succeeded")').waitFor();
  await page.click('text=Graph');
  await page.waitForSelector('canvas');
  const drawn = await page.evaluate(
    () =>
      new Promise((done) =>
        setTimeout(() => {
          const canvas = document.querySelector('canvas');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          done(data.some((value, place) => place % 4 === 3 && value > 0));
        }, 500),
      ),
  );
  assert.ok(drawn, 'something is drawn');
  assert.deepEqual(faults, []);
  await context.close();
});

on('texts from outside do nothing, add no element and turn nothing around', async () => {
  for (const text of HOSTILE) fleet.run('submit', '--name', text.replaceAll(/[\u0007\u001b]/g, ''), '--wait', '--', 'printf', '%s\\n', text);
  const { page, context, faults } = await signedIn('jobs');
  await page.waitForSelector(`tbody tr:nth-child(${HOSTILE.length})`);
  const state = await page.evaluate(() => ({
    hit: window.hit ?? null,
    odd: document.querySelectorAll('tbody img, tbody svg, tbody script').length,
    hidden: document.querySelector('tbody').textContent.match(/[\u202a-\u202e\u2066-\u2069\u001b]/),
  }));
  assert.deepEqual(state, { hit: null, odd: 0, hidden: null });
  for (const text of HOSTILE.slice(0, 3)) {
    await page.goto(`${fleet.url}/ui/jobs`);
    await page.locator('tbody a', { hasText: text.slice(0, 12) }).first().click();
    await page.locator('.line-text', { hasText: text.slice(0, 12) }).first().waitFor();
  }
  assert.equal(await page.evaluate(() => window.hit ?? null), null);
  assert.deepEqual(faults, []);
  await context.close();
});

on('nothing that begins while a list is opened is missing in it', async () => {
  const { page, context } = await signedIn();
  for (let round = 0; round < 8; round += 1) {
    await page.goto(`${fleet.url}/ui/`);
    await page.waitForSelector('nav');
    const opened = page.goto(`${fleet.url}/ui/jobs`);
    await page.waitForTimeout(round * 30);
    fleet.run('submit', '--name', `begun-${round}`, '--', 'true');
    await opened;
    await page.locator(`text=begun-${round}`).waitFor({ timeout: 10_000 });
  }
  await context.close();
});

on('a killed server is survived without a reload, and nothing is lost of what is shown', async () => {
  const { page, context, faults } = await signedIn('jobs');
  await page.evaluate(() => (window.sameDocument = true));
  fleet.run('submit', '--name', 'before-the-kill', '--', 'true');
  await page.locator('text=before-the-kill').waitFor();
  await fleet.kill();
  await page.locator('text=offline since').waitFor();
  assert.ok(await page.locator('text=before-the-kill').isVisible());
  await fleet.up();
  await page.locator('.fresh:has-text("live")').waitFor();
  fleet.run('submit', '--name', 'after-the-kill', '--', 'true');
  await page.locator('text=after-the-kill').waitFor();
  assert.ok(await page.evaluate(() => window.sameDocument));
  assert.deepEqual(faults.filter((fault) => !fault.startsWith('request:')), []);
  await context.close();
});

on('what a role may not do is shown with the reason', async () => {
  const { page, context } = await openPage(browser, fleet.link('--role', 'viewer'));
  await page.waitForSelector('nav');
  await page.goto(`${fleet.url}/ui/workers`);
  const button = page.locator('button:has-text("Cordon")').first();
  await button.waitFor();
  assert.equal(await button.isDisabled(), true);
  assert.match(await button.getAttribute('title'), /needs the role operator; you are viewer/);
  await context.close();
});

/** Presses a button of the page, and the one of its dialog. */
async function act(page, label, { types } = {}) {
  await page.locator(`main button:text-is("${label}"):enabled`).first().click();
  if (types) await page.fill('dialog input', types);
  const command = await page.locator('dialog code').textContent();
  await page.locator('dialog button[type=submit]').click();
  const refused = page.locator('dialog .refused');
  await page.locator('dialog').waitFor({ state: 'detached', timeout: 10_000 }).catch(async (error) => {
    throw (await refused.count()) ? new Error(`${label}: ${await refused.textContent()}`) : error;
  });
  return command;
}

on('every action of a flow, a job and a worker does what it says', async () => {
  const { page, context, faults } = await signedIn();
  const is = (word) => page.locator(`h1 .state:has-text("${word}"), h2 .state:has-text("${word}")`).first().waitFor();
  const first = submit();
  const ids = [first.id ?? first[0].id];
  await page.goto(`${fleet.url}/ui/flows/${ids[0]}`);
  await is('decide');
  assert.match(await act(page, 'Suspend'), /flow suspend/);
  await is('suspended');
  assert.match(await act(page, 'Resume'), /flow resume/);
  await is('decide');
  assert.match(await act(page, 'Stop'), /flow stop/);
  await is('failed');
  assert.match(await act(page, 'Retry'), /flow retry/);
  const again = JSON.parse(fleet.run('flow', 'list', '--target', 'fleet', '-o', 'json')).items.map((flow) => flow.name);
  assert.ok(again.includes(`release-${flows}-r2`), `${again}`);
  assert.match(await act(page, 'Delete', { types: `release-${flows}` }), /flow delete/);
  await page.waitForURL(/\/ui\/flows$/);
  const second = submit();
  await page.goto(`${fleet.url}/ui/flows/${second.id ?? second[0].id}`);
  await is('decide');
  assert.match(await act(page, 'Terminate'), /flow terminate/);
  await is('failed');

  const job = fleet.run('submit', '--name', 'long', '-o', 'name', '--', 'sleep', '1000').trim();
  await page.goto(`${fleet.url}/ui/jobs/${job}`);
  await is('running');
  await act(page, 'Cancel');
  await is('cancelled');
  await act(page, 'Submit again');
  const jobs = JSON.parse(fleet.run('jobs', '-o', 'json')).items;
  assert.equal(jobs.filter((one) => one.name === 'long').length, 2);

  await page.goto(`${fleet.url}/ui/workers`);
  await act(page, 'Cordon');
  await act(page, 'Uncordon');
  await page.locator('button:text-is("Cordon")').first().waitFor();
  const other = fleet.run('submit', '--name', 'busy', '-o', 'name', '--', 'sleep', '1000').trim();
  assert.match(await act(page, 'Drain'), /orlop drain/);
  await is('draining');
  assert.match(await act(page, 'Undrain'), /--undo/);
  await page.locator('button:text-is("Drain"):enabled').first().waitFor();
  fleet.run('cancel', other);
  assert.deepEqual(faults, []);
  await context.close();
});

on('a flow is written, corrected by the lines that the server names, drawn and submitted', async () => {
  const { page, context, faults } = await signedIn('submit');
  const area = page.locator('.editor textarea');
  await area.fill(FLOW.replace('dependencies: [ask], message: "Sure?"', 'dependencies: [asks], message: "Sure?"'));
  const finding = page.locator('.findings li', { hasText: 'asks' });
  await finding.waitFor();
  assert.equal(await page.locator('.panel button:text-is("Submit")').isDisabled(), true);
  await finding.locator('button').click();
  assert.equal(await area.evaluate((element) => element.value.slice(0, element.selectionStart).split('\n').length), 7);
  await page.reload();
  await finding.waitFor();
  await area.fill(FLOW);
  await page.locator('.panel h2:has-text("3 steps")').waitFor();
  await page.locator('canvas').waitFor();
  await page.getByRole('textbox', { name: 'Name' }).first().fill('from-the-page');
  assert.match(await act(page, 'Submit'), /--name from-the-page/);
  await page.locator('h1:has-text("from-the-page")').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

on('every view is accessible in both themes, on a wide screen and a narrow one', async () => {
  const flow = submit();
  const views = ['', 'flows', 'submit', 'jobs', 'workers', 'approvals', `flows/${flow.id ?? flow[0].id}?step=ask`, `flows/${flow.id ?? flow[0].id}/timeline`, 'nothing'];
  const found = [];
  const long = !!process.env.ORLOP_TEST_LONG;
  for (const colorScheme of ['light', 'dark']) {
    for (const width of long ? [1440, 390] : [colorScheme === 'light' ? 1440 : 390]) {
      const { page, context } = await signedIn('', { colorScheme, viewport: { width, height: 900 }, bypassCSP: false });
      for (const view of views) {
        await page.goto(`${fleet.url}/ui/${view}`);
        await page.waitForSelector('main h1, main h2');
        // By the debugging protocol, so that the policy of the page stays on.
        const session = await context.newCDPSession(page);
        await session.send('Runtime.evaluate', { expression: axe });
        const { result } = await session.send('Runtime.evaluate', {
          expression: 'axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations.map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`)))',
          awaitPromise: true,
          returnByValue: true,
        });
        for (const violation of JSON.parse(result.value)) found.push(`${colorScheme} ${width} ${view || 'overview'}: ${violation}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (wide > 0) found.push(`${width} ${view}: ${wide} px wider than the screen`);
      }
      await context.close();
    }
  }
  assert.deepEqual(found, []);
});
