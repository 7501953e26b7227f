// Synonyms and classes. Doses, risks and advice are not here: they come from the guidelines.

/** Classes as guidelines write them; the first that has a drug is the one that is searched for. */
const CLASSES: Readonly<Record<string, string>> = {
  'ACE inhibitor': 'lisinopril ramipril enalapril perindopril captopril benazepril',
  'angiotensin receptor blocker|ARB':
    'losartan valsartan candesartan irbesartan olmesartan telmisartan',
  'sacubitril-valsartan|ARNI': 'sacubitril-valsartan',
  'mineralocorticoid antagonist': 'spironolactone eplerenone finerenone',
  thiazide: 'hydrochlorothiazide chlorthalidone indapamide bendroflumethiazide',
  'loop diuretic': 'furosemide torasemide bumetanide',
  diuretic:
    'hydrochlorothiazide chlorthalidone indapamide bendroflumethiazide furosemide torasemide bumetanide spironolactone',
  'beta blocker':
    'propranolol nadolol timolol carvedilol bisoprolol metoprolol atenolol nebivolol labetalol',
  'non-selective beta blocker': 'propranolol nadolol timolol carvedilol',
  'cardioselective beta blocker': 'bisoprolol metoprolol atenolol nebivolol',
  'calcium channel blocker': 'amlodipine felodipine nifedipine diltiazem verapamil',
  nitrate: 'nitroglycerin isosorbide',
  'statin|high-intensity statin|moderate-intensity statin':
    'atorvastatin simvastatin rosuvastatin pravastatin',
  fibrate: 'gemfibrozil fenofibrate',
  anticoagulant: 'warfarin apixaban rivaroxaban dabigatran edoxaban',
  antiplatelet: 'aspirin clopidogrel ticagrelor',
  'topical NSAID': '',
  NSAID: 'ibuprofen naproxen diclofenac meloxicam ketorolac indomethacin celecoxib',
  SSRI: 'sertraline citalopram escitalopram fluoxetine paroxetine',
  SNRI: 'venlafaxine duloxetine',
  'monoamine oxidase inhibitor|MAOI': 'phenelzine tranylcypromine',
  tricyclic: 'amitriptyline nortriptyline',
  benzodiazepine: 'lorazepam diazepam alprazolam clonazepam temazepam',
  gabapentinoid: 'gabapentin pregabalin',
  opioid:
    'morphine oxycodone hydrocodone codeine tramadol fentanyl methadone buprenorphine hydromorphone',
  'antihistamine|first-generation antihistamine': 'diphenhydramine chlorphenamine hydroxyzine',
  'anticholinergic|anticholinergic drug': 'oxybutynin tolterodine diphenhydramine amitriptyline',
  antipsychotic: 'quetiapine olanzapine risperidone haloperidol',
  'alpha blocker': 'tamsulosin doxazosin',
  'long-acting sulfonylurea': 'glyburide glimepiride',
  sulfonylurea: 'glyburide glimepiride glipizide gliclazide',
  'SGLT2 inhibitor': 'empagliflozin dapagliflozin canagliflozin',
  'GLP-1 receptor agonist': 'semaglutide liraglutide dulaglutide tirzepatide',
  'DPP-4 inhibitor': 'sitagliptin linagliptin saxagliptin alogliptin',
  'insulin|basal insulin|mealtime insulin': 'insulin glargine insulin-glargine',
  'proton pump inhibitor': 'omeprazole esomeprazole pantoprazole lansoprazole',
  macrolide: 'clarithromycin erythromycin azithromycin',
  fluoroquinolone: 'ciprofloxacin levofloxacin moxifloxacin',
  'azole|azole antifungal': 'fluconazole itraconazole ketoconazole',
  penicillin: 'amoxicillin amoxicillin-clavulanate ampicillin penicillin flucloxacillin',
  cephalosporin: 'cephalexin cefazolin ceftriaxone cefuroxime',
  'sulfonamide antibiotic|sulfonamide|sulfa': 'trimethoprim-sulfamethoxazole sulfadiazine',
  trimethoprim: 'trimethoprim-sulfamethoxazole',
  tetracycline: 'doxycycline minocycline',
  bisphosphonate: 'alendronate risedronate zoledronate',
  corticosteroid: 'prednisone prednisolone dexamethasone hydrocortisone',
  'enzyme inducer': 'carbamazepine phenytoin rifampicin',
  'combined hormonal contraception|hormonal contraception|combined pill': 'ethinylestradiol',
  biologic: 'adalimumab etanercept infliximab',
  iron: 'ferrous iron',
  calcium: 'calcium',
};

/** Drugs in the guidelines that belong to no class above. */
const OTHERS =
  'metformin pioglitazone allopurinol colchicine lithium digoxin amiodarone levothyroxine ' +
  'propylthiouracil methotrexate azathioprine mercaptopurine mycophenolate valproate lamotrigine ' +
  'topiramate levetiracetam baclofen donepezil mirtazapine mirabegron domperidone metoclopramide ' +
  'ondansetron prochlorperazine famotidine finasteride formoterol salbutamol denosumab heparin ' +
  'isotretinoin naloxone naltrexone acamprosate varenicline nitrofurantoin fosfomycin sildenafil ' +
  'tadalafil paracetamol adrenaline';

/** Synonyms of drugs. */
const BRANDS: Readonly<Record<string, string>> = {
  acetaminophen: 'paracetamol',
  tylenol: 'paracetamol',
  glibenclamide: 'glyburide',
  'insulin glargine': 'insulin-glargine',
  lantus: 'insulin-glargine',
  glucophage: 'metformin',
  jardiance: 'empagliflozin',
  ozempic: 'semaglutide',
  'co-trimoxazole': 'trimethoprim-sulfamethoxazole',
  sulfamethoxazole: 'trimethoprim-sulfamethoxazole',
  bactrim: 'trimethoprim-sulfamethoxazole',
  augmentin: 'amoxicillin-clavulanate',
  epinephrine: 'adrenaline',
  coumadin: 'warfarin',
  eliquis: 'apixaban',
  xarelto: 'rivaroxaban',
  plavix: 'clopidogrel',
  lipitor: 'atorvastatin',
  zocor: 'simvastatin',
  zestril: 'lisinopril',
  lasix: 'furosemide',
  lanoxin: 'digoxin',
  synthroid: 'levothyroxine',
  albuterol: 'salbutamol',
  advil: 'ibuprofen',
  motrin: 'ibuprofen',
  aleve: 'naproxen',
  viagra: 'sildenafil',
};

/** Diagnoses by their names; the first is the one that is searched for. */
const CONDITIONS: readonly (readonly string[])[] = [
  ['type 2 diabetes', 'diabetes mellitus type 2', 't2dm', 'diabetes', 'diabetic'],
  ['gestational diabetes'],
  ['resistant hypertension'],
  ['type 1 diabetes', 't1dm', 'diabetes', 'diabetic'],
  [
    'hypertension',
    'high blood pressure',
    'elevated blood pressure',
    'blood pressure target',
    'blood pressure in diabetes',
  ],
  ['chronic kidney disease', 'ckd', 'kidney disease', 'diabetic nephropathy'],
  [
    'heart failure with reduced ejection fraction',
    'hfref',
    'reduced ejection fraction',
    'heart failure',
  ],
  [
    'heart failure with preserved ejection fraction',
    'hfpef',
    'preserved ejection fraction',
    'heart failure',
  ],
  ['heart failure', 'hfref', 'hfpef', 'congestive heart failure', 'cardiomyopathy'],
  ['atrial fibrillation', 'af', 'afib'],
  [
    'coronary disease',
    'coronary artery disease',
    'myocardial infarction',
    'cad',
    'ischaemic heart disease',
    'atherosclerotic cardiovascular disease',
    'vascular disease',
  ],
  ['stroke', 'tia', 'ischaemic stroke'],
  [
    'hyperlipidaemia',
    'hyperlipidemia',
    'high cholesterol',
    'dyslipidaemia',
    'dyslipidemia',
    'hypercholesterolaemia',
  ],
  ['asthma'],
  ['COPD', 'chronic obstructive pulmonary disease', 'emphysema'],
  ['hypothyroidism', 'underactive thyroid'],
  ['hyperthyroidism', 'graves disease', 'overactive thyroid'],
  ['depression', 'major depression', 'depressive disorder'],
  ['bipolar disorder', 'bipolar'],
  ['generalised anxiety', 'anxiety', 'generalized anxiety disorder'],
  ['chronic pain', 'chronic low back pain', 'back pain'],
  ['osteoarthritis', 'knee pain', 'arthrosis'],
  ['gout'],
  ['osteoporosis'],
  ['iron deficiency anaemia', 'iron deficiency', 'anaemia', 'anemia'],
  ['dementia', 'alzheimer disease', 'memory complaints', 'memory loss'],
  ['falls', 'recurrent falls', 'falling'],
  ['insomnia'],
  ['parkinson disease', "parkinson's disease", 'parkinson'],
  ['epilepsy', 'seizure'],
  ['migraine with aura', 'migraine'],
  ['migraine'],
  ['rheumatoid arthritis'],
  ['urinary tract infection', 'cystitis', 'bladder infection'],
  ['pneumonia'],
  ['cirrhosis', 'liver disease'],
  ['obesity'],
  ['prediabetes'],
  ['sleep apnoea', 'sleep apnea'],
  ['muscle pain', 'myalgia'],
  ['enlarged prostate', 'benign prostatic hyperplasia', 'bph'],
  ['opioid use disorder'],
  ['alcohol use disorder', 'unhealthy alcohol use', 'alcohol'],
  ['angioedema'],
  ['nausea'],
];

const termsByDrug = new Map<string, string[]>();
for (const [names, members] of Object.entries(CLASSES))
  for (const member of members.split(' ').filter(Boolean))
    termsByDrug.set(member, [...(termsByDrug.get(member) ?? []), ...names.split('|')]);

const ALL_TERMS = Object.keys(CLASSES).flatMap((names) => names.split('|'));

const LONG_NAMES = [...ALL_TERMS, ...CONDITIONS.flat()].map((name) => name.toLowerCase());

const KNOWN_DRUGS = [...termsByDrug.keys(), ...OTHERS.split(' ')];
/** Also the second half of other names, as in "atorvastatin calcium". */
const SALTS = new Set(['calcium', 'lithium']);

/** The usual names of what is in a medicine, the longest first, without salt, strength or brand. */
export function drugNames(written: string): readonly string[] {
  const name = written.toLowerCase().trim();
  const brand = Object.keys(BRANDS).find((each) => hasWord(name, each));
  if (brand !== undefined) return [BRANDS[brand] as string];
  const within = (text: string): readonly string[] =>
    KNOWN_DRUGS.filter((drug) => hasWord(text, drug));
  const whole = within(name);
  // A name with a hyphen may be one drug or two.
  const found = whole.length > 0 ? whole : within(name.replaceAll('-', ' '));
  if (found.length === 0) return [name.replace(/\s+\d.*$/, '')];
  const drugs = found.filter((drug) => found.length === 1 || !SALTS.has(drug));
  return drugs.toSorted((a, b) => b.length - a.length);
}

const drugName = (written: string): string => drugNames(written)[0] ?? written;

/** The name of a drug and its classes; of an unknown drug the name alone. */
export const drugTerms = (written: string): readonly string[] => {
  const name = drugName(written);
  return [name, ...(termsByDrug.get(name) ?? [])];
};

/**
 * What an allergy to a substance forbids: itself, its nearest class, and all that are in the class
 * it names.
 */
export function allergyTerms(substance: string): readonly string[] {
  const name = drugName(substance);
  const members = Object.entries(CLASSES).find(([names]) => includes(names.split('|'), name));
  return [name, className(name), ...(members?.[1].split(' ') ?? [])];
}

/** The drug's class in the words of a search, or the drug itself. */
export const className = (written: string): string => drugTerms(written)[1] ?? drugName(written);

/** All names of a condition: what is written, and what we know to mean the same. */
export function conditionTerms(written: string): readonly string[] {
  const name = written.toLowerCase();
  const known = CONDITIONS.map((names) => ({
    names,
    // The longest name that fits: "type 1 diabetes" before "diabetes".
    fit: Math.max(0, ...names.filter((each) => isName(name, each)).map(({ length }) => length)),
  }))
    .filter(({ fit }) => fit > 0)
    .toSorted((x, y) => y.fit - x.fit)[0];
  return [name, ...(known?.names ?? [])].map((each) => each.toLowerCase());
}

const isName = (written: string, name: string): boolean =>
  name.length > 2 ? hasWord(written, name) : written === name;

export const conditionName = (written: string): string => conditionTerms(written)[1] ?? written;

/** All names of conditions, to detect whether a text is about another group of patients. */
export const ALL_CONDITIONS: readonly string[] = CONDITIONS.flat().filter(
  (each) => each.length > 2,
);

/** Whether a text names any known drug or class. */
export const mentionsDrug = (text: string): boolean =>
  [...termsByDrug.keys(), ...ALL_TERMS].some((term) => hasWord(text, term));

/** Whether a text has a name as a complete word, singular or plural. */
export function hasWord(text: string, name: string): boolean {
  return pattern(name).test(text);
}

/**
 * Whether a text names one of the terms. A longer name hides the shorter one inside it:
 * "non-selective beta blockers" are not all beta blockers, type 1 is not type 2 diabetes.
 */
export function mentions(text: string, terms: readonly string[]): boolean {
  return terms.some((term) => {
    const wider = LONG_NAMES.filter(
      (other) =>
        other.length > term.length && other.includes(term.toLowerCase()) && !includes(terms, other),
    );
    const rest = wider.reduce((left, other) => left.replace(pattern(other, 'gi'), ' '), text);
    return hasWord(rest, term);
  });
}

const includes = (terms: readonly string[], name: string): boolean =>
  terms.some((term) => term.toLowerCase() === name);

const patterns = new Map<string, RegExp>();

function pattern(name: string, flags = 'i'): RegExp {
  const key = `${flags}:${name}`;
  let found = patterns.get(key);
  if (!found) {
    const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    found = new RegExp(`(?<![\\w-])${escaped}(?:s|es)?(?![\\w-])`, flags);
    patterns.set(key, found);
  }
  return found;
}
