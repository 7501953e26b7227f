import type { MatrixAgent } from '../matrix-agent.ts';
import { sampleReply, useScriptedModel } from '../sample-model.ts';

// The sample AI Doctor. Each search of the guidelines is an effect.

const agent: MatrixAgent = {
  cli: true,
  async sample() {
    const { default: plan } = await import('../../../examples/ai-doctor/model.ts');
    const { sampleText } = await import('../../../examples/ai-doctor/samples.ts');
    return { text: await sampleText(), reply: sampleReply(plan), effects: 6 };
  },
  async build(scene) {
    useScriptedModel(scene);
    const { briefingAgent } = await import('../../../examples/ai-doctor/agent.ts');
    const { openGuidelines } = await import('../../../examples/ai-doctor/retrieval/guidelines.ts');
    const guidelines = await openGuidelines();
    const search = guidelines.search.bind(guidelines);
    const counted: typeof search = (query, options) => {
      scene.onEffect(query);
      return search(query, options);
    };
    return briefingAgent(Object.assign(guidelines, { search: counted }));
  },
};

export default agent;
