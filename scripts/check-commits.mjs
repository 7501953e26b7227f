// Checks the commits since the rules were agreed: `area: imperative` in at most 72 characters, with a body that says why. A change
// of the public surface is also in the changelog. `node scripts/check-commits.mjs [--since <commit>]`; without a history there is
// nothing to check, and it says so.
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ROOT } from './setup.mjs';

/** The last commit before the rules. */
const AGREED = '63a4eab';
const MAX_SUBJECT = 72;

const areas = [
  ...readdirSync(`${ROOT}/src`).map((name) => name.replace(/\.ts$/, '')),
  ...['web', 'test', 'docs', 'examples', 'bench', 'scripts', 'repo', 'deploy', 'peers', 'proto'],
];
const AREA = `(?:${areas.map((area) => area.replaceAll('.', '\\.')).join('|')})`;
const SUBJECT = new RegExp(`^${AREA}(?:, ${AREA})*: [a-z0-9"'\`./-]`);

const { values } = parseArgs({ options: { since: { type: 'string', default: AGREED } } });

/** What is wrong with a commit. */
export function problemsOf({ subject, body, files }) {
  const isMove = /: move /.test(subject);
  return [
    ...(SUBJECT.test(subject) ? [] : ['the subject is not "area: imperative"']),
    ...(subject.length > MAX_SUBJECT ? [`the subject has ${subject.length} characters`] : []),
    ...(body === '' && !isMove ? ['there is no body that says why'] : []),
    ...(files.includes('test/repo/doors.json') && !files.includes('CHANGELOG.md')
      ? ['the public surface changes, and CHANGELOG.md does not']
      : []),
  ];
}

function commitsSince(since) {
  const git = (...args) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const ids = git('rev-list', '--no-merges', `${since}..HEAD`).split('\n').filter(Boolean);
  return ids.map((id) => {
    const [subject = '', ...body] = git('log', '-1', '--format=%B', id).split('\n');
    const files = git('show', '--name-only', '--format=', id).split('\n').filter(Boolean);
    return { id, subject, body: body.join('\n').trim(), files };
  });
}

function main() {
  let commits;
  try {
    commits = commitsSince(values.since);
  } catch {
    // A tarball or a shallow clone has no history to judge.
    console.log(`commits   not checked: there is no history since ${values.since}`);
    return;
  }
  const wrong = commits.flatMap((commit) =>
    problemsOf(commit).map((problem) => `${commit.id.slice(0, 7)} ${commit.subject}: ${problem}`),
  );
  for (const line of wrong) console.log(line);
  console.log(`commits   ${commits.length} checked, ${wrong.length} problems`);
  if (wrong.length > 0) process.exitCode = 1;
}

if (process.argv[1] === import.meta.filename) main();
