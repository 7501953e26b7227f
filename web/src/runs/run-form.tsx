import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { startTask, type AgentCardLite } from '../api/requests.ts';
import controls from '../ui/controls.module.css';
import { nameOf } from '../ui/table-data.ts';
import styles from './run-form.module.css';

interface Sample {
  readonly name: string;
  readonly text: string;
}

/**
 * The input of an agent and the Run button. The input is JSON if the form of the agent is an
 * object, else text; it starts with the first sample.
 */
export function RunForm({ agent }: { readonly agent: AgentCardLite }): VNode {
  const samples = formSamples(agent);
  const takesData = agent.form?.['type'] === 'object';
  const [text, setText] = useState(samples[0]?.text ?? '');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const name = agent.name;
  const run = async (): Promise<void> => {
    setError('');
    setBusy(true);
    try {
      const { task } = await startTask(name, takesData ? { data: parse(text) } : { text });
      location.hash = task;
    } catch (reason) {
      setError(reason instanceof Error ? reason.message : String(reason));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class={styles['form']}
      aria-label={`Run ${name}`}
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
      <h2>{name}</h2>
      <p>{agent.description}</p>
      {samples.length > 1 && (
        <select
          aria-label={`Samples for ${name}`}
          onChange={(event) => setText(samples[event.currentTarget.selectedIndex]?.text ?? '')}
        >
          {samples.map((sample) => (
            <option key={sample.name}>{sample.name}</option>
          ))}
        </select>
      )}
      <textarea
        aria-label={`Input for ${name}`}
        aria-invalid={error !== ''}
        class={takesData ? controls['code'] : undefined}
        rows={takesData ? 10 : 3}
        spellcheck={!takesData}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void run();
        }}
      />
      {error && (
        <p class={controls['error']} role="alert" data-part="form-error">
          {error}
        </p>
      )}
      <button type="submit" class={controls['primary']} disabled={busy || text.trim() === ''}>
        Run
      </button>
    </form>
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`Invalid JSON: ${error instanceof Error ? error.message : ''}`);
  }
}

/** The examples of a form: a string unchanged, a record as JSON under its title or name. */
export function formSamples({ form }: AgentCardLite): readonly Sample[] {
  const examples: readonly unknown[] = Array.isArray(form?.['examples']) ? form['examples'] : [];
  return examples.map((example, i) => {
    if (typeof example === 'string') return { name: example.slice(0, 60), text: example };
    return { name: nameOf(example) ?? `Sample ${i + 1}`, text: JSON.stringify(example, null, 2) };
  });
}
