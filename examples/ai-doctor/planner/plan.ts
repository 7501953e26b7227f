import type { PatientRecord } from '../record.ts';
import type { Drug, Facts } from './facts.ts';

const MAX_SEARCHES = 6;
const PER_TURN = 3;
const MAX_DRUGS_PER_QUERY = 5;

/**
 * The searches for a patient, most urgent first, in the turns in which they are made: what the
 * drugs do to these kidneys and to each other, what an allergy, a pregnancy or old age forbids, how
 * the conditions are treated, what to screen for. At least two and at most six.
 */
export function planSearches(facts: Facts): readonly (readonly string[])[] {
  const { record, drugs, conditions, allergies, abnormal } = facts;
  const queries: string[] = [];
  const eGFR = facts.valueOf('eGFR');
  const kidney = eGFR !== undefined && eGFR < 60;
  if (kidney && drugs.length > 0)
    queries.push(`${once(`${namesOf(drugs)} ${classesOf(drugs)}`)} renal dosing eGFR ${eGFR}`);
  if (drugs.length > 1)
    queries.push(`${once(`${namesOf(drugs)} ${classesOf(drugs)}`)} interaction`);
  const clash = allergies.filter(({ terms }) =>
    drugs.some((drug) => drug.terms.some((term) => terms.includes(term))),
  );
  if (clash.length > 0)
    queries.push(`${clash.map(({ substance }) => substance).join(' ')} allergy ${namesOf(drugs)}`);
  if (record.pregnant)
    queries.push(`pregnancy ${namesOf(drugs)} ${conditions.map(({ name }) => name).join(' ')}`);
  if (record.age >= 65 && drugs.length > 0) queries.push(`older people avoid ${classesOf(drugs)}`);
  const labs = abnormal.map(({ name, direction }) => `${direction} ${name}`).slice(0, 3);
  if (labs.length > 0)
    queries.push(`${labs.join(' ')} ${namesOf(drugs)} monitoring`.replace('  ', ' '));
  const diabetes = conditions.find(({ name }) => /diabetes/.test(name))?.name;
  const treated = conditions.slice(0, 3).map(({ name }) => name);
  if (treated.length > 0) queries.push(`${treated.join(' ')} treatment target`);
  const last = diabetes === undefined ? [] : [`${diabetes} screening eye foot kidney`];
  last.push(screeningQuery(record));
  if (queries.length + last.length < 2) last.push(`vaccination adults age ${record.age}`);
  const chosen = [...queries.slice(0, MAX_SEARCHES - last.length), ...last];
  return Array.from({ length: Math.ceil(chosen.length / PER_TURN) }, (_, turn) =>
    chosen.slice(turn * PER_TURN, (turn + 1) * PER_TURN),
  );
}

const once = (words: string): string => [...new Set(words.split(' '))].join(' ');

const namesOf = (drugs: readonly Drug[]): string =>
  drugs
    .slice(0, MAX_DRUGS_PER_QUERY)
    .map(({ name }) => name)
    .join(' ');

const classesOf = (drugs: readonly Drug[]): string =>
  [...new Set(drugs.map(({ className }) => className))].slice(0, MAX_DRUGS_PER_QUERY + 1).join(' ');

function screeningQuery({ age, sex, smoking }: PatientRecord): string {
  const person = sex === 'female' ? 'women' : 'men';
  const group = age >= 65 ? ' older adults' : '';
  const smoker = smoking && smoking.status !== 'never' ? ' smoker' : '';
  return `cancer screening vaccine ${person} age ${age}${group}${smoker}`;
}
