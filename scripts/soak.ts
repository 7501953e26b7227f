// Replicas on one PostgreSQL under random kills and cuts: `npx tsx scripts/soak.ts [minutes] [replicas] [streams]`.
// Needs `npm run build`. Exits with 1 when an event was lost, doubled or reordered, or a task has not one end.
import { postgresMissing } from '../test/support/task/postgres.ts';
import { soak, soakLine } from '../test/support/task/soak.ts';

const [minutes = 10, replicas = 4, streams = 200] = process.argv.slice(2).map(Number);

if (postgresMissing !== undefined) throw new Error(postgresMissing);
const start = Date.now();
let told = start;
const report = await soak({
  ms: minutes * 60_000,
  replicas,
  streams,
  wordMs: 200,
  faultMs: 3000,
  onProgress(now) {
    if (Date.now() - told < 30_000) return;
    told = Date.now();
    console.log(`${Math.round((told - start) / 1000)} s: ${soakLine(now)}`);
  },
});
console.log(`${minutes} min, ${replicas} replicas, ${streams} streams: ${soakLine(report)}`);
for (const loss of report.losses) console.error(loss);
process.exitCode = report.losses.length > 0 ? 1 : 0;
