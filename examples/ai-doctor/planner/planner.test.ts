import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ANALYTES } from '../labs.ts';
import plan, { type PlannerRequest } from '../model.ts';
import { SEARCH_TOOL_FULL } from '../names.ts';
import {
  checkBriefing,
  type MedicationConcern,
  type PatientBriefing,
} from '../patient-briefing.ts';
import { type PatientRecord, readRecord } from '../record.ts';
import { chunk, loadCorpus } from '../retrieval/corpus.ts';
import { SPELLING } from '../retrieval/guidelines.ts';
import { hashedEmbedder } from '../retrieval/hashed.ts';
import { type GuidelineIndex, openIndex } from '../retrieval/index.ts';
import { sampleNames, sampleText } from '../samples.ts';
import { formatSources, parseSources, type Source } from '../sources.ts';
import { drugNames, mentions } from './lexicon.ts';

interface Expectation {
  readonly concerns: readonly {
    readonly medications: readonly string[];
    readonly cites: readonly string[];
  }[];
  readonly mustNot: readonly Partial<{
    readonly kind: string;
    readonly medications: readonly string[];
    readonly cites: string;
  }>[];
  readonly screenings: readonly string[];
  readonly noScreenings: readonly string[];
  readonly actions: readonly string[];
}

const names = await sampleNames();
const expectations = JSON.parse(
  await readFile(new URL('../patients/expectations.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, Expectation>>;

let index: GuidelineIndex;
beforeAll(async () => {
  index = await openIndex({
    chunks: chunk(await loadCorpus()),
    embedder: hashedEmbedder,
    ...SPELLING,
  });
});
afterAll(() => index[Symbol.dispose]());

interface Played {
  readonly briefing: PatientBriefing;
  readonly returned: readonly Source[];
  readonly searches: readonly string[];
  readonly turns: number;
}

/** The agent loop around the planner without a process: at most four model calls. */
async function play(record: PatientRecord): Promise<Played> {
  const tools = [{ name: SEARCH_TOOL_FULL }, { name: 'StructuredOutput' }];
  const messages: PlannerRequest['messages'][number][] = [
    { role: 'user', content: JSON.stringify(record) },
  ];
  const returned: Source[] = [];
  const searches: string[] = [];
  for (let turns = 1; turns <= 4; turns++) {
    const { text, tools: calls = [] } = plan({ messages, tools });
    expect(text).not.toBe('');
    const output = calls.find(({ name }) => name === 'StructuredOutput');
    if (output)
      return { briefing: checkBriefing(output.input, returned), returned, searches, turns };
    const results = await Promise.all(
      calls.map(async ({ input }) => {
        searches.push(String(input['query']));
        const found = (await index.search(String(input['query']), { limit: 6 })).map(
          (hit) => hit.chunk,
        );
        returned.push(...found);
        return { type: 'tool_result', content: [{ type: 'text', text: formatSources(found) }] };
      }),
    );
    messages.push(
      { role: 'assistant', content: [{ type: 'tool_use' }] },
      { role: 'user', content: results },
    );
  }
  throw new Error('no briefing within four turns');
}

const fits = (concern: MedicationConcern, wanted: Expectation['mustNot'][number]): boolean =>
  (wanted.kind === undefined || concern.kind === wanted.kind) &&
  (wanted.medications ?? []).every((name) => concern.medications.includes(name)) &&
  (wanted.cites === undefined || concern.citations.includes(wanted.cites));

describe('every sample patient', () => {
  test('has expectations, and there are at least twelve', () => {
    expect(Object.keys(expectations).toSorted()).toEqual([...names].toSorted());
    expect(names.length).toBeGreaterThanOrEqual(12);
  });

  test.each(names)('%s: flags exactly the expected concerns', async (name) => {
    const wanted = expectations[name];
    const { briefing, searches, turns } = await play(readRecord(await sampleText(name)));
    const { medicationSafety } = briefing;
    for (const { medications, cites } of wanted?.concerns ?? [])
      expect(
        medicationSafety.filter((concern) =>
          cites.some((id) => fits(concern, { medications, cites: id })),
        ),
        `${medications.join(' + ')} by ${cites.join(' or ')}`,
      ).not.toEqual([]);
    for (const unwanted of wanted?.mustNot ?? [])
      expect(medicationSafety.filter((concern) => fits(concern, unwanted))).toEqual([]);
    const cited = (
      items: readonly { readonly citations: readonly string[] }[],
    ): readonly string[] => items.flatMap(({ citations }) => citations);
    expect(cited(briefing.screenings)).toEqual(
      expect.arrayContaining([...(wanted?.screenings ?? [])]),
    );
    expect(cited(briefing.screenings).filter((id) => wanted?.noScreenings.includes(id))).toEqual(
      [],
    );
    expect(cited(briefing.suggestedActions)).toEqual(
      expect.arrayContaining([...(wanted?.actions ?? [])]),
    );
    expect(searches.length).toBeGreaterThanOrEqual(2);
    expect(searches.length).toBeLessThanOrEqual(6);
    expect(turns).toBeLessThanOrEqual(4);
  });
});

const DRUGS =
  'metformin lisinopril ibuprofen warfarin simvastatin apixaban lithium sertraline oxycodone levothyroxine zyxomab'.split(
    ' ',
  );
const ILLS = [
  'Type 2 diabetes',
  'Hypertension',
  'Chronic kidney disease',
  'Asthma',
  'Gout',
  'Heart failure',
  'Odd <&"> thing',
];
const lab = fc
  .constantFrom(...ANALYTES)
  .chain(({ name, possible: [low, high] }) =>
    fc.record({ name: fc.constant(name), value: fc.double({ min: low, max: high, noNaN: true }) }),
  );
const anyRecord: fc.Arbitrary<PatientRecord> = fc.record({
  age: fc.integer({ min: 0, max: 120 }),
  sex: fc.constantFrom('female', 'male'),
  conditions: fc.uniqueArray(fc.constantFrom(...ILLS), { maxLength: 4 }),
  medications: fc
    .uniqueArray(fc.constantFrom(...DRUGS), { maxLength: 6 })
    .map((all) => all.map((name) => ({ name }))),
  labs: fc.uniqueArray(lab, { maxLength: 6, selector: ({ name }) => name }),
  allergies: fc.array(
    fc
      .constantFrom('Penicillin', 'Sulfa', 'ibuprofen', 'peanuts')
      .map((substance) => ({ substance })),
    { maxLength: 2 },
  ),
});

test('any valid record gets a briefing whose citations resolve and whose sentences are quotes', async () => {
  await fc.assert(
    fc.asyncProperty(anyRecord, async (record) => {
      const { briefing, returned, searches } = await play(readRecord(record));
      expect(searches.length).toBeGreaterThanOrEqual(2);
      const texts = new Map(returned.map(({ id, text }) => [id, text]));
      for (const { action, citations } of briefing.suggestedActions)
        expect(citations.some((id) => texts.get(id)?.includes(action))).toBe(true);
    }),
    { numRuns: 60 },
  );
});

describe('a record with the usual variations', () => {
  const base: PatientRecord = {
    age: 60,
    sex: 'female',
    conditions: ['Type 2 diabetes'],
    medications: [],
    labs: [{ name: 'eGFR', value: 25 }],
    allergies: [],
  };
  const briefed = async (change: Partial<PatientRecord>): Promise<PatientBriefing> =>
    (await play(readRecord({ ...base, ...change }))).briefing;

  test.each([
    ['METFORMIN HCL', 'metformin'],
    ['metformin hydrochloride XR 500 mg', 'metformin'],
    ['Glucophage', 'metformin'],
    ['empagliflozin-metformin 5/1000', 'metformin'],
  ])('%s is known, and its danger is found', async (name, drug) => {
    const { medicationSafety } = await briefed({ medications: [{ name }] });
    expect(medicationSafety.flatMap(({ medications }) => medications)).toContain(drug);
  });

  test.each([
    ['lisinopril/hydrochlorothiazide 20/12.5 mg', ['hydrochlorothiazide', 'lisinopril']],
    ['lisinopril-hydrochlorothiazide', ['hydrochlorothiazide', 'lisinopril']],
    ['atorvastatin calcium', ['atorvastatin']],
    ['calcium carbonate', ['calcium']],
    ['Lithium carbonate', ['lithium']],
    ['insulin glargine', ['insulin-glargine']],
    ['amoxicillin-clavulanate', ['amoxicillin-clavulanate']],
    ['trimethoprim/sulfamethoxazole', ['trimethoprim-sulfamethoxazole']],
    ['warfarin sodium 5 mg', ['warfarin']],
    ['zyxomab 5 mg', ['zyxomab']],
  ])('%s is %j', (written, names) => {
    expect(drugNames(written)).toEqual(names);
  });

  test('a medicine without a passage is reported as unchecked', async () => {
    const alone = await briefed({ medications: [{ name: 'zyxomab' }] });
    expect(alone.summary).toContain('No passage that was found speaks of zyxomab');
    expect(alone.summary).not.toContain('no concern');
    const beside = await briefed({ medications: [{ name: 'zyxomab' }, { name: 'metformin' }] });
    expect(beside.summary).toContain('No passage that was found speaks of zyxomab');
    const known = await briefed({ medications: [{ name: 'metformin' }] });
    expect(known.summary).not.toContain('No passage that was found');
  });

  test.each(['no diabetes', 'denies diabetes', 'Diabetes ruled out', 'family history of diabetes'])(
    '%s does not mean that the patient has diabetes',
    async (written) => {
      const { screenings, summary } = await briefed({ conditions: [written] });
      expect(screenings.map(({ screening }) => screening)).not.toContain(
        'Diabetic retinopathy screening',
      );
      expect(summary).not.toContain('type 2 diabetes');
      expect(summary).toContain(written);
    },
  );

  test('of several values of one kind the latest counts, in any order', async () => {
    const labs = [
      { name: 'eGFR', value: 90, date: '2025-01-01' },
      { name: 'GFR', value: 25, date: '2020-01-01' },
    ];
    for (const order of [labs, labs.toReversed()]) {
      const { findings, medicationSafety } = await briefed({
        labs: order,
        medications: [{ name: 'metformin' }],
      });
      expect({ findings, medicationSafety }).toEqual({ findings: [], medicationSafety: [] });
    }
  });

  test('"none" in a list means an empty list', async () => {
    const { summary, findings } = await briefed({
      conditions: ['None'],
      medications: [{ name: 'none' }],
      allergies: [{ substance: 'none' }, { substance: 'NKDA' }],
      labs: [],
    });
    expect(summary).toMatch(/^60-year-old female patient, on no medication\./);
    expect(findings).toEqual([]);
  });
});

test('a text without a record, and an invalid record, get an explanation', () => {
  const ask = (content: string): string =>
    plan({ messages: [{ role: 'user', content }], tools: [] }).text;
  expect(ask('hello')).toContain('patient records as JSON');
  expect(ask('Here it is: {"age": 200}')).toContain('the patient record is not valid');
});

test('a long name hides the short one inside it', () => {
  expect(
    mentions('Non-selective beta blockers are dangerous', ['metoprolol', 'beta blocker']),
  ).toBe(false);
  expect(mentions('Beta blockers are dangerous', ['metoprolol', 'beta blocker'])).toBe(true);
  expect(mentions('People with type 1 diabetes', ['type 2 diabetes', 'diabetes'])).toBe(false);
});

test('sources with any content survive XML encoding', () => {
  const source = fc.record({
    id: fc.string(),
    title: fc.string(),
    section: fc.string(),
    text: fc.string(),
  });
  fc.assert(
    fc.property(fc.array(source), (sources) => {
      expect(parseSources(`noise ${formatSources(sources)} <source>`)).toEqual(sources);
    }),
  );
});
