import type { MatrixAgent } from '../matrix-agent.ts';

// The sample chat: an agent without a model, which asks a person.

const agent: MatrixAgent = {
  sample: async () => ({ text: 'tea', reply: () => ({ status: 400 }), effects: 0 }),
  build: async () => (await import('../../../examples/chat/shopper.ts')).shopper,
};

export default agent;
