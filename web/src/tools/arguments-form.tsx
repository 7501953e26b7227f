import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { asObject, isObject, type JsonObject } from '../../../src/json.ts';
import controls from '../ui/controls.module.css';
import { draftOf, formContent, FormFields, schemaFields } from '../ui/form-fields.tsx';

/**
 * A form for arguments: one field for each property if all are simple, else JSON. `children` are
 * further buttons.
 */
export function ArgumentsForm({
  label,
  schema,
  submit,
  isBusy,
  onSubmit,
  children,
}: {
  readonly label: string;
  readonly schema: JsonObject;
  readonly submit: string;
  readonly isBusy: boolean;
  readonly onSubmit: (args: JsonObject) => void;
  readonly children?: ComponentChildren;
}): VNode {
  const fields = schemaFields(schema);
  const hasNone = Object.keys(asObject(schema['properties'])).length === 0;
  const [draft, setDraft] = useState(() => draftOf(fields ?? [], schema, undefined));
  const [text, setText] = useState('{}');
  const [isJson, setJson] = useState(fields === undefined && !hasNone);
  const [error, setError] = useState('');
  const read = (): JsonObject => (isJson ? parse(text) : formContent(fields ?? [], draft));
  return (
    <form
      aria-label={label}
      onSubmit={(event) => {
        event.preventDefault();
        setError('');
        try {
          onSubmit(read());
        } catch (reason) {
          setError(reason instanceof Error ? reason.message : String(reason));
        }
      }}
    >
      {isJson ? (
        <textarea
          aria-label="Arguments as JSON"
          class={controls['code']}
          rows={8}
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      ) : (
        fields && <FormFields fields={fields} draft={draft} onChange={setDraft} />
      )}
      {error && (
        <p class={controls['error']} role="alert">
          {error}
        </p>
      )}
      <span class={controls['group']}>
        <button type="submit" class={controls['primary']} disabled={isBusy} formNoValidate>
          {submit}
        </button>
        {!isJson && (
          <button
            type="button"
            onClick={() => {
              setText(JSON.stringify(contentOr(read), null, 2));
              setJson(true);
            }}
          >
            Edit as JSON
          </button>
        )}
        {children}
      </span>
    </form>
  );
}

/** What the fields hold so far; nothing if a required one is missing. */
function contentOr(read: () => JsonObject): JsonObject {
  try {
    return read();
  } catch {
    return {}; // the form is not complete yet
  }
}

function parse(text: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`Invalid JSON: ${error instanceof Error ? error.message : ''}`);
  }
  if (!isObject(value)) throw new Error('Invalid arguments: expected a JSON object.');
  return value;
}
