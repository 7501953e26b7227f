// `npm run audit`: known vulnerabilities of the locked packages, as the registry reports them. An
// unreachable registry, or one without advisories, is reported and does not fail the run.
import { runNpm, say } from './setup.mjs';

const { output } = await runNpm(['audit', '--json', '--fetch-retries=0', '--fetch-timeout=20000'], {
  quiet: true,
});
const report = readReport(output);
const counts = report?.metadata?.vulnerabilities;
if (counts === undefined) {
  say(`audit: skipped, the registry did not respond (${reasonIn(report, output)})`);
} else if (counts.total === 0) {
  say('audit: no known vulnerability in the locked packages');
} else {
  for (const { name, severity, isDirect, range } of Object.values(report.vulnerabilities))
    say(`${severity.padEnd(9)} ${name} ${range}${isDirect ? '' : ' (through another package)'}`);
  say(`audit: ${counts.total} packages with known vulnerabilities`);
  process.exitCode = 1;
}

function readReport(text) {
  try {
    return JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1));
  } catch {
    return undefined; // npm printed something else; the caller reports its first line
  }
}

function reasonIn(found, text) {
  return found?.message ?? found?.error?.summary ?? text.trim().split('\n', 1)[0];
}
