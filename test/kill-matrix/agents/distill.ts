import type { MatrixAgent } from '../matrix-agent.ts';
import { sampleReply, useScriptedModel } from '../sample-model.ts';

// The sample distill: one call, whose spec is the artifact of the run.

const agent: MatrixAgent = {
  cli: true,
  async sample() {
    const { default: distiller } = await import('../../../examples/distill/model.ts');
    const { SAMPLES } = await import('../../../examples/distill/samples.ts');
    return { text: SAMPLES[0], reply: sampleReply(distiller), effects: 0 };
  },
  async build(scene) {
    useScriptedModel(scene);
    return (await import('../../../examples/distill/agent.ts')).default;
  },
};

export default agent;
