import type { Finding, PatientBriefing } from '../patient-briefing.ts';
import { sentences } from '../retrieval/corpus.ts';
import type { Source } from '../sources.ts';
import { screenings, suggestedActions } from './advice.ts';
import { conditionsIn } from './conditions.ts';
import type { Facts } from './facts.ts';
import { mentions } from './lexicon.ts';
import { medicationConcerns } from './safety.ts';

export const DISCLAIMER = 'Educational example, not medical advice.';

/** Composes the briefing from search results: sentences are quoted, never invented. */
export function compose(facts: Facts, found: readonly Source[]): PatientBriefing {
  const sources = [...new Map(found.map((source) => [source.id, source])).values()];
  const medicationSafety = medicationConcerns(facts, sources);
  const briefing = {
    findings: findings(facts, sources),
    medicationSafety,
    suggestedActions: suggestedActions(facts, sources),
    screenings: screenings(facts, sources),
  };
  const cited = new Set(
    Object.values(briefing).flatMap((items) => items.flatMap(({ citations }) => citations)),
  );
  // No sentence applies to the patient: report the passages that were read.
  if (cited.size === 0 && sources[0]) cited.add(sources[0].id);
  return {
    summary: summary(facts, medicationSafety.length, sources),
    ...briefing,
    citations: sources.filter(({ id }) => cited.has(id)).map(({ id, title }) => ({ id, title })),
    disclaimer: DISCLAIMER,
  };
}

function summary(
  { record, drugs, conditions, notOwn, abnormal }: Facts,
  concerns: number,
  sources: readonly Source[],
): string {
  const { age, sex, pregnant } = record;
  const who = `${age}-year-old ${pregnant ? 'pregnant ' : ''}${sex} patient`;
  const has = conditions.length > 0 ? ` with ${list(conditions.map(({ name }) => name))}` : '';
  const takes =
    drugs.length > 0 ? `, taking ${list(drugs.map(({ name }) => name))}` : ', on no medication';
  const said = notOwn.length > 0 ? ` On record, but no condition of theirs: ${list(notOwn)}.` : '';
  const labs =
    abnormal.length > 0
      ? ` Out of range: ${list(abnormal.map(({ name, value, unit }) => `${name} ${value} ${unit}`.trim()))}.`
      : ' No listed value is out of range.';
  const silent = drugs.filter(
    ({ terms }) => !sources.some(({ title, text }) => mentions(`${title}. ${text}`, terms)),
  );
  const unchecked =
    silent.length > 0
      ? ` No passage that was found speaks of ${list(silent.map(({ name }) => name))}: not checked.`
      : '';
  const raised = concerns === 0 && silent.length > 0 ? '' : concernsIn(concerns);
  return `${who}${has}${takes}.${said}${labs}${raised}${unchecked}`;
}

const concernsIn = (count: number): string =>
  ` The searched guidelines raise ${count === 0 ? 'no concern' : count === 1 ? 'one concern' : `${count} concerns`} about the medication.`;

function findings(
  { record, drugs, allergies, abnormal }: Facts,
  sources: readonly Source[],
): readonly Finding[] {
  const values = abnormal.map(({ name, value, unit, direction }): Finding => ({
    finding: `${`${name} ${value} ${unit}`.trim()} is ${direction}.`,
    citations: sources
      .filter(({ text }) => dependsOn(text, name, value))
      .slice(0, 2)
      .map(({ id }) => id),
  }));
  const { systolic, diastolic } = record.vitals ?? {};
  if (systolic !== undefined && diastolic !== undefined && (systolic >= 130 || diastolic >= 80))
    values.push({
      finding: `Blood pressure ${systolic}/${diastolic} mmHg is above 130/80.`,
      citations: sources
        .filter(({ text }) => text.includes('130/80'))
        .slice(0, 1)
        .map(({ id }) => id),
    });
  const clashes = allergies.flatMap(({ substance, terms }) =>
    drugs
      .filter((drug) => drug.terms.some((term) => terms.includes(term)))
      .map(({ name }): Finding => ({
        finding: `Allergy to ${substance} and treatment with ${name} are both on record.`,
        citations: [],
      })),
  );
  return [...clashes, ...values];
}

/** Whether the advice of a passage depends on this value, and the value meets the condition. */
const dependsOn = (text: string, name: string, value: number): boolean =>
  sentences(text).some((sentence) =>
    conditionsIn(sentence).found.some(({ of, holds }) => of === name && holds(value)),
  );

function list(items: readonly string[]): string {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}
