// Replicas on one PostgreSQL under random kills and lost connections: `npx tsx scripts/soak.ts
// [minutes] [replicas] [streams] [turns]`. With `turns`, each stream is a conversation of so many
// turns with an agent CLI, and each replica has a private home. Needs `npm run build`. Exits with 1 if an event was lost,
// repeated or reordered, or a task has not exactly one end.
import { postgresMissing } from '../test/support/task/postgres.ts';
import { soak, soakLine } from '../test/support/task/soak.ts';

const [minutes = 10, replicas = 4, streams = 200, sessionTurns] = process.argv.slice(2).map(Number);

if (postgresMissing !== undefined) throw new Error(postgresMissing);
const start = Date.now();
let printedAt = start;
let printedLosses = 0;
const report = await soak({
  ms: minutes * 60_000,
  replicas,
  streams,
  wordMs: 200,
  faultMs: 3000,
  ...(sessionTurns !== undefined && { sessionTurns }),
  onProgress(now) {
    for (; printedLosses < now.losses.length; printedLosses++)
      console.error(now.losses[printedLosses]);
    if (Date.now() - printedAt < 30_000) return;
    printedAt = Date.now();
    console.log(`${Math.round((printedAt - start) / 1000)} s: ${soakLine(now)}`);
  },
});
console.log(`${minutes} min, ${replicas} replicas, ${streams} streams: ${soakLine(report)}`);
for (const loss of report.losses.slice(printedLosses)) console.error(loss);
process.exitCode = report.losses.length > 0 ? 1 : 0;
