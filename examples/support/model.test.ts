import { expect, test } from 'vitest';
import { modelOptions } from './model.ts';

const SOURCE = 'file:///app/examples/tickets/session.ts';

test.each([
  [{}, 'module:/app/examples/tickets/model.ts'],
  [{ ANTHROPIC_API_KEY: 'k' }, 'anthropic:claude-sonnet-4-5'],
  [
    { OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1', OPENAI_MODEL: 'm' },
    'openai:m@http://127.0.0.1:11434/v1',
  ],
  // A server that knows no such model says so; silence and rules would be no answer to an address.
  [{ OPENAI_BASE_URL: 'http://127.0.0.1:8080/v1' }, 'openai:default@http://127.0.0.1:8080/v1'],
  [{ OPENAI_MODEL: 'm' }, 'module:/app/examples/tickets/model.ts'],
  [{ ANTHROPIC_API_KEY: 'k', DUOLANE_MODEL: 'script:x.json' }, 'script:x.json'],
])('with %j the model is %s', (env, model) => {
  expect(modelOptions(SOURCE, env).model).toBe(model);
});

test('rules in TypeScript come with a loader, built ones do not', () => {
  expect(modelOptions(SOURCE, {}).executableArgs?.[0]).toBe('--import');
  const built = modelOptions(SOURCE.replace('.ts', '.js'), {});
  expect(built).toEqual({ model: 'module:/app/examples/tickets/model.js' });
});
