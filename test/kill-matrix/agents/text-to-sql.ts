import { join } from 'node:path';
import { peer } from '../../peers.ts';
import type { MatrixAgent } from '../matrix-agent.ts';
import { sampleReply, useScriptedModel } from '../sample-model.ts';

// The sample text-to-sql: a plan of the model, then steps that store files.

const duckDb = await peer('duckdb');

const agent: MatrixAgent = {
  ...(duckDb.reason !== undefined && { missing: duckDb.reason }),
  cli: true,
  async sample() {
    const { default: planner } = await import('../../../examples/text-to-sql/model.ts');
    const text = 'top 3 products by revenue in Lyon';
    return { text, reply: sampleReply(planner), effects: 0 };
  },
  async build(scene) {
    useScriptedModel(scene);
    process.env['BLOBS_FOLDER'] = join(scene.own, '..', 'blobs');
    return (await import('../../../examples/text-to-sql/agent.ts')).default;
  },
};

export default agent;
