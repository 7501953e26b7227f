// `npm run commits`: checks the commits since the rules were agreed. A subject is `area:
// imperative` in at most 72 characters, and a body says why. A change of the public surface is also
// in the changelog. `--since <commit>` starts elsewhere. Without a history there is nothing to
// check, and it says so.
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ROOT } from './setup.mjs';

/** The last commit before the rules. */
const AGREED = '63a4eab';
const MAX_SUBJECT = 72;

const OTHER_AREAS = 'web test docs examples bench scripts repo deploy peers proto'.split(' ');
const areas = [
  ...readdirSync(`${ROOT}/src`).map((name) => name.replace(/\.ts$/, '')),
  ...OTHER_AREAS,
];
const AREA = `(?:${areas.map((area) => area.replaceAll('.', '\\.')).join('|')})`;
const SUBJECT = new RegExp(`^${AREA}(?:, ${AREA})*: [a-z0-9"'\`./-]`);

/** Says what is wrong with a commit. A pure move needs no body: its subject says all there is. */
export function problemsOf({ subject, body, files }) {
  const isMove = /: move /.test(subject);
  return [
    ...(SUBJECT.test(subject) ? [] : ['the subject is not "area: imperative"']),
    ...(subject.length > MAX_SUBJECT ? [`the subject has ${subject.length} characters`] : []),
    ...(body === '' && !isMove ? ['the body that says why is missing'] : []),
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
  const { values } = parseArgs({ options: { since: { type: 'string', default: AGREED } } });
  let commits;
  try {
    commits = commitsSince(values.since);
  } catch {
    // A tarball or a shallow clone has no history to judge.
    console.log(`commits   not checked: no history since ${values.since}`);
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
