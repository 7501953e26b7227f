import type { VNode } from 'preact';
import { isObject, type JsonObject } from '../../../src/json.ts';
import controls from './controls.module.css';
import styles from './form-fields.module.css';
import { humanize } from './table-data.ts';

/** One input of a form, made from a property of a schema. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly help?: string;
  readonly kind: 'text' | 'number' | 'check' | 'choice';
  /** A number without a fraction. */
  readonly isInteger?: true;
  readonly required: boolean;
  readonly choices?: readonly string[];
}

/** The values of the fields as the user typed them. */
export type Draft = Readonly<Record<string, string | boolean>>;

/**
 * The fields of a schema whose properties are all simple; undefined for any other schema, whose
 * data is edited as JSON.
 */
export function schemaFields(schema: JsonObject | undefined): readonly Field[] | undefined {
  if (schema?.['type'] !== 'object' || !isObject(schema['properties'])) return undefined;
  const required: readonly unknown[] = Array.isArray(schema['required']) ? schema['required'] : [];
  const fields = Object.entries(schema['properties']).map(([name, property]) =>
    isObject(property) ? fieldOf(name, property, required.includes(name)) : undefined,
  );
  return fields.length > 0 && fields.every((field) => field !== undefined) ? fields : undefined;
}

function fieldOf(name: string, property: JsonObject, required: boolean): Field | undefined {
  const { title, description, type, enum: choices } = property as Record<string, unknown>;
  const base = {
    name,
    label: typeof title === 'string' ? title : humanize(name),
    required,
    ...(typeof description === 'string' && { help: description }),
  };
  if (Array.isArray(choices))
    return choices.every((choice) => typeof choice === 'string')
      ? { ...base, kind: 'choice', choices }
      : undefined;
  if (type === 'string') return { ...base, kind: 'text' };
  if (type === 'number') return { ...base, kind: 'number' };
  if (type === 'integer') return { ...base, kind: 'number', isInteger: true };
  return type === 'boolean' ? { ...base, kind: 'check' } : undefined;
}

/** The first values of the fields: the data of the request, else the defaults of the schema. */
export function draftOf(fields: readonly Field[], schema: JsonObject, data: unknown): Draft {
  const properties = schema['properties'] as Readonly<Record<string, JsonObject>>;
  const given = isObject(data) ? data : {};
  return Object.fromEntries(
    fields.map(({ name, kind, required, choices }) => {
      const value = given[name] ?? properties[name]?.['default'];
      if (kind === 'check') return [name, value === true];
      const first = kind === 'choice' && required ? (choices?.[0] ?? '') : '';
      return [name, typeof value === 'string' || typeof value === 'number' ? `${value}` : first];
    }),
  );
}

/**
 * The content of the answer without empty optional fields. Throws if a field is missing or invalid.
 */
export function formContent(fields: readonly Field[], draft: Draft): JsonObject {
  const content: Record<string, unknown> = {};
  for (const { name, label, kind, isInteger, required } of fields) {
    const value = draft[name] ?? '';
    if (kind === 'check') content[name] = value === true;
    else if (value === '') {
      if (required) throw new Error(`${label} is required.`);
    } else if (kind === 'number') {
      const number = Number(value);
      if (!Number.isFinite(number) || (isInteger && !Number.isInteger(number)))
        throw new Error(`${label} must be a ${isInteger ? 'whole ' : ''}number.`);
      content[name] = number;
    } else content[name] = value;
  }
  return content as JsonObject;
}

/** Draws the fields; `onChange` gets the complete draft. */
export function FormFields({
  fields,
  draft,
  onChange,
}: {
  readonly fields: readonly Field[];
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
}): VNode {
  const set = (name: string, value: string | boolean): void =>
    onChange({ ...draft, [name]: value });
  return (
    <div class={styles['fields']}>
      {fields.map((field) => (
        <label key={field.name} class={field.kind === 'check' ? styles['check'] : undefined}>
          <span>
            {field.label}
            {field.required && field.kind !== 'check' && <span aria-hidden="true"> *</span>}
          </span>
          <Input field={field} value={draft[field.name] ?? ''} set={set} />
          {field.help && <small class={controls['soft']}>{field.help}</small>}
        </label>
      ))}
    </div>
  );
}

function Input({
  field: { name, kind, choices, required },
  value,
  set,
}: {
  readonly field: Field;
  readonly value: string | boolean;
  readonly set: (name: string, value: string | boolean) => void;
}): VNode {
  if (kind === 'check')
    return (
      <input
        type="checkbox"
        checked={value === true}
        onChange={(event) => set(name, event.currentTarget.checked)}
      />
    );
  const text = String(value);
  if (kind === 'choice')
    return (
      <select value={text} onChange={(event) => set(name, event.currentTarget.value)}>
        {!required && <option value="" />}
        {choices?.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    );
  if (kind === 'text' && (text.length > 60 || text.includes('\n')))
    return (
      <textarea
        rows={3}
        value={text}
        required={required}
        onInput={(event) => set(name, event.currentTarget.value)}
      />
    );
  return (
    <input
      type="text"
      inputMode={kind === 'number' ? 'decimal' : 'text'}
      value={text}
      required={required}
      onInput={(event) => set(name, event.currentTarget.value)}
    />
  );
}
